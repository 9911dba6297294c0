package variable_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/frontend/gitlabci/variable"
)

// define makes a collection of "NAME=value" in order. "raw NAME=value" and "file NAME=value" set what they say.
func define(lines ...string) *variable.Collection {
	c := &variable.Collection{}
	for _, line := range lines {
		var v variable.Variable
		line, v.Raw = strings.CutPrefix(line, "raw ")
		line, v.File = strings.CutPrefix(line, "file ")
		v.Name, v.Value, _ = strings.Cut(line, "=")
		c.Add(v)
	}
	return c
}

// list is the opposite of define.
func list(c *variable.Collection) []string {
	var lines []string
	for v := range c.All() {
		line := v.Name + "=" + v.Value
		if v.File {
			line = "file " + line
		}
		if v.Raw {
			line = "raw " + line
		}
		lines = append(lines, line)
	}
	return lines
}

func path(name string) string { return "/builds/project.tmp/" + name }

func TestCollection(t *testing.T) {
	t.Parallel()
	c := variable.New(variable.Variable{Name: "A", Value: "1"}, variable.Variable{Name: "B", Value: "2", Masked: true})
	c.Set("A", "3")
	c.Set("C", "4")
	if got, ok := c.Lookup("A"); got != "3" || !ok {
		t.Errorf("A is %q, %v", got, ok)
	}
	if got, ok := c.Lookup("D"); got != "" || ok {
		t.Errorf("D is %q, %v", got, ok)
	}
	if !c.IsMasked("B") || c.IsMasked("A") || c.IsMasked("D") {
		t.Error("B alone is masked")
	}
	var names []string
	for _, v := range c.Effective() {
		names = append(names, v.Name+"="+v.Value)
	}
	if diff := cmp.Diff([]string{"B=2", "A=3", "C=4"}, names); diff != "" || c.Len() != 4 {
		t.Errorf("%d, %s", c.Len(), diff)
	}
	clone := c.Clone()
	clone.Set("A", "5")
	if got, _ := c.Lookup("A"); got != "3" {
		t.Error("a change of the copy changes the collection")
	}
	empty := &variable.Collection{}
	if _, ok := empty.Get("A"); ok || len(empty.Effective()) != 0 {
		t.Error("the zero collection is not empty")
	}
}

func TestMerge(t *testing.T) {
	t.Parallel()
	layer := func(level variable.Level, lines ...string) variable.Layer {
		return variable.Layer{Level: level, Variables: slices.Collect(define(lines...).All())}
	}
	t.Run("every level overrides the ones below it, in whatever order they are given", func(t *testing.T) {
		t.Parallel()
		var layers []variable.Layer
		for level := variable.Predefined; level <= variable.ExecutionPolicy; level++ {
			layers = append(layers, layer(level, "X="+level.String(), level.String()+"=yes"))
			shuffled := slices.Clone(layers)
			slices.Reverse(shuffled)
			if got, _ := variable.Merge(shuffled...).Lookup("X"); got != level.String() {
				t.Errorf("after %s: got %s", level, got)
			}
		}
		if got := variable.Merge(layers...); got.Len() != 2*len(layers) {
			t.Errorf("got %d variables", got.Len())
		}
	})
	t.Run("those predefined and those of the file are not private", func(t *testing.T) {
		t.Parallel()
		for level, private := range map[variable.Level]bool{
			variable.Predefined: false, variable.Deployment: true, variable.Global: false, variable.Job: false, variable.Rules: false, variable.Dotenv: true, variable.Project: true,
			variable.Pipeline: true,
		} {
			if got, _ := variable.Merge(layer(level, "X=1")).Get("X"); got.Private != private {
				t.Errorf("%s: private is %t", level, got.Private)
			}
		}
	})
	t.Run("the closest group is the last one", func(t *testing.T) {
		t.Parallel()
		c := variable.Merge(layer(variable.Group, "X=group"), layer(variable.Job, "X=job"), layer(variable.Group, "X=subgroup"))
		if got, _ := c.Lookup("X"); got != "subgroup" {
			t.Errorf("got %s", got)
		}
	})
	if variable.Level(99).String() != "unknown" {
		t.Error("an unknown level has a name")
	}
}

func TestExpand(t *testing.T) {
	t.Parallel()
	rules, runner := variable.ForRules, variable.ForRunner
	for name, test := range map[string]struct {
		options  variable.Options
		in, want []string
	}{
		"the three ways to refer":                      {rules, []string{"A=1", "B=$A ${A} %A%"}, []string{"A=1", "B=1 1 1"}},
		"through several steps, in any order":          {rules, []string{"C=<$B>", "B=($A)", "A=1"}, []string{"A=1", "B=(1)", "C=<(1)>"}},
		"escapes stay for the runner":                  {rules, []string{"A=1", "B=$$A %%A%% $$$A"}, []string{"A=1", "B=$$A %%A%% $$1"}},
		"what is not set is removed":                   {rules, []string{"B=<$NO${NO}%NO%>"}, []string{"B=<>"}},
		"what is not set is kept for the runner":       {runner, []string{"B=<$NO${NO}%NO%>"}, []string{"B=<$NO${NO}%NO%>"}},
		"what is no reference stays":                   {rules, []string{"A=1", "B=$ ${} ${A %A $1 $(A) 5% ${A-x} %A B%"}, []string{"A=1", "B=$ ${} ${A %A $1 $(A) 5% ${A-x} %A B%"}},
		"a name is as long as can be":                  {rules, []string{"A=1", "AB=2", "C=$ABC$AB.$A-${A}B"}, []string{"A=1", "AB=2", "C=2.1-1B"}},
		"the later definition counts":                  {rules, []string{"A=1", "B=$A", "A=2"}, []string{"A=1", "A=2", "B=2"}},
		"a raw value is not expanded":                  {rules, []string{"A=1", "raw B=$A"}, []string{"A=1", "raw B=$A"}},
		"a raw value in another, for rules":            {rules, []string{"A=1", "raw B=raw-$A", "C=$B"}, []string{"A=1", "raw B=raw-$A", "C=raw-$A"}},
		"a raw value in another is left to the runner": {runner, []string{"A=1", "raw B=raw-$A", "C=$B"}, []string{"A=1", "raw B=raw-$A", "C=$B"}},
		"a file in another, for rules":                 {rules, []string{"file F=text", "C=$F"}, []string{"file F=text", "C=text"}},
		"a file in another is left to the runner":      {runner, []string{"file F=text", "C=${F}"}, []string{"file F=text", "C=${F}"}},
		"the content of a file is expanded":            {runner, []string{"A=1", "file F=$A"}, []string{"A=1", "file F=1"}},
		"a variable that refers to itself alone":       {rules, []string{"PATH=/x:$PATH"}, []string{"PATH=/x:"}},
		"and for the runner":                           {runner, []string{"PATH=/x:$PATH"}, []string{"PATH=/x:$PATH"}},
		"a definition that extends an earlier one":     {rules, []string{"P=/bin", "P=/x:$P", "Q=$P"}, []string{"P=/bin", "P=/x:/bin", "Q=/x:/bin"}},
		"a user of it that comes first":                {rules, []string{"Q=$P", "P=/bin", "P=/x:$P"}, []string{"P=/bin", "P=/x:/bin", "Q=/x:/bin"}},
		"nothing at all":                               {rules, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := define(test.in...)
			got, err := in.Expand(test.options)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, list(got)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(test.in, list(in)); diff != "" {
				t.Errorf("the collection itself changed: %s", diff)
			}
		})
	}
}

func TestCircles(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		in   []string
		want string
	}{
		"two":             {[]string{"A=$B", "B=${A}", "C=1"}, "[A, B]"},
		"three":           {[]string{"A=%B%", "B=$C", "C=$A", "D=$A"}, "[A, B, C]"},
		"two circles":     {[]string{"A=$B", "B=$A", "X=$Y", "Y=$X"}, "[A, B] and [X, Y]"},
		"two of one name": {[]string{"A=1$A", "A=2$A"}, "[A, A]"},
		"by way of a definition that does not count": {[]string{"A=$B", "B=$A", "A=1"}, "[A, B]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := define(test.in...).Expand(variable.ForRules)
			var circle *variable.CycleError
			if !errors.As(err, &circle) {
				t.Fatalf("got %v", err)
			}
			if want := "variables refer to each other in a circle: " + test.want; err.Error() != want {
				t.Errorf("got %s, want %s", err, want)
			}
			if diff := cmp.Diff(test.in, list(got)); diff != "" {
				t.Errorf("something was expanded: %s", diff)
			}
		})
	}
	t.Run("a raw variable closes no circle", func(t *testing.T) {
		t.Parallel()
		if _, err := define("A=$B", "raw B=$A").Expand(variable.ForRules); err != nil {
			t.Error(err)
		}
	})
	t.Run("an error names a few of many", func(t *testing.T) {
		t.Parallel()
		var lines []string
		for i := range 1000 {
			lines = append(lines, fmt.Sprintf("A%d=$B%d", i, i), fmt.Sprintf("B%d=$A%d", i, i))
		}
		if _, err := define(lines...).Expand(variable.ForRules); err == nil || len(err.Error()) > 200 {
			t.Errorf("got %.300v", err)
		}
	})
}

func TestLimits(t *testing.T) {
	t.Parallel()
	t.Run("laughs, a billion of them", func(t *testing.T) {
		t.Parallel()
		lines := []string{"L0=ha"}
		for i := range 30 {
			lines = append(lines, fmt.Sprintf("L%d=%s", i+1, strings.Repeat(fmt.Sprintf("$L%d", i), 10)))
		}
		got, err := define(lines...).Expand(variable.ForRules)
		var size *variable.SizeError
		if !errors.As(err, &size) || size.Name != "L6" || size.Limit != variable.MaxValue || got != nil {
			t.Errorf("got %v", err)
		}
	})
	t.Run("many values that are large together", func(t *testing.T) {
		t.Parallel()
		lines := []string{"A=" + strings.Repeat("x", variable.MaxValue)}
		for i := range 2000 {
			lines = append(lines, fmt.Sprintf("B%d=$A", i))
		}
		for name, expand := range map[string]func(*variable.Collection) (*variable.Collection, error){
			"GitLab": func(c *variable.Collection) (*variable.Collection, error) { return c.Expand(variable.ForRules) },
			"runner": func(c *variable.Collection) (*variable.Collection, error) { return c.ExpandForJob(path) },
		} {
			_, err := expand(define(lines...))
			var size *variable.SizeError
			if !errors.As(err, &size) || !size.All || strings.Contains(err.Error(), "xx") {
				t.Errorf("%s: got %.200v", name, err)
			}
		}
	})
	t.Run("a text, and a value in a job", func(t *testing.T) {
		t.Parallel()
		c := define("A="+strings.Repeat("x", 1000), "B="+strings.Repeat("$A", 2000))
		b, _ := c.Lookup("B")
		if _, err := variable.ExpandText(b, c.Lookup); err == nil {
			t.Error("a large text is not an error")
		}
		if _, err := c.ExpandInJob(b, path); err == nil {
			t.Error("a large text in a job is not an error")
		}
		if _, err := c.ExpandForJob(path); err == nil || !strings.HasPrefix(err.Error(), "the value of B is larger than") {
			t.Errorf("got %.200v", err)
		}
	})
	t.Run("a chain of a hundred thousand, and as many definitions of one name", func(t *testing.T) {
		t.Parallel()
		var lines []string
		for i := range 100_000 {
			lines = append(lines, "A"+strconv.Itoa(i)+"=$A"+strconv.Itoa(i+1))
		}
		lines = append(lines, "A100000=end")
		got, err := define(lines...).Expand(variable.ForRules)
		if err != nil {
			t.Fatal(err)
		}
		if v, _ := got.Lookup("A0"); v != "end" {
			t.Errorf("got %q", v)
		}
		lines = nil
		for i := range 50_000 {
			lines = append(lines, "X="+strconv.Itoa(i), "Y"+strconv.Itoa(i)+"=$X")
		}
		if got, err = define(lines...).Expand(variable.ForRules); err != nil {
			t.Fatal(err)
		}
		if v, _ := got.Lookup("Y0"); v != "49999" {
			t.Errorf("got %q", v)
		}
	})
}

func TestReferences(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff([]string{"A", "B", "C", "A"}, variable.References("$A-${B}%C%$$D%%E%%$A")); diff != "" {
		t.Error(diff)
	}
	if got := variable.References("nothing"); got != nil {
		t.Errorf("got %v", got)
	}
}

func TestExpandText(t *testing.T) {
	t.Parallel()
	c := define("DIR=docs", "EMPTY=", "NESTED=$DIR/x")
	for text, want := range map[string][2]string{
		"$DIR/*.md":    {"docs/*.md", "docs/*.md"},
		"${DIR}/%DIR%": {"docs/docs", "docs/docs"},
		"$NO/$EMPTY/x": {"//x", "$NO//x"},
		"$$DIR":        {"$docs", "$docs"}, // no escapes
		"$NESTED":      {"$DIR/x", "$DIR/x"},
		"plain":        {"plain", "plain"},
	} {
		all, err1 := variable.ExpandText(text, c.Lookup)
		known, err2 := variable.ExpandKnown(text, c.Lookup)
		if all != want[0] || known != want[1] || err1 != nil || err2 != nil {
			t.Errorf("%s: got %q, %v and %q, %v", text, all, err1, known, err2)
		}
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	expand := func(t *testing.T, c *variable.Collection) *variable.Collection {
		t.Helper()
		got, err := c.ExpandForJob(path)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	value := func(c *variable.Collection, name string) string {
		v, _ := c.Lookup(name)
		return v
	}
	t.Run("case 47: the last of several definitions counts, and there is one pass", func(t *testing.T) {
		t.Parallel()
		got := expand(t, define("key=value_of_$public", "public=some_value", "public=value_of_$undefined"))
		if v := value(got, "key"); v != "value_of_value_of_$undefined" {
			t.Errorf("key is %q", v)
		}
		if v := value(got, "public"); v != "value_of_" {
			t.Errorf("public is %q", v)
		}
	})
	t.Run("case 48: a double $ is one, and special names are empty", func(t *testing.T) {
		t.Parallel()
		c := define("A=1")
		for text, want := range map[string]string{
			"$$": "$", "$/x": "$/x", "$@": "", "${@}": "", "$$A": "$A", "$1$9${0}": "", "$A${A}": "11", "%A%": "%A%",
			"${A": "A", "${}x": "x", "$": "$", "$-x": "x", "$$$A": "$1", "${A b}": "", "$Ä": "$Ä",
		} {
			if got, err := c.ExpandInJob(text, path); got != want || err != nil {
				t.Errorf("%s: got %q, %v; want %q", text, got, err, want)
			}
		}
	})
	t.Run("case 49: a raw value stays as it is, in others as well", func(t *testing.T) {
		t.Parallel()
		got := expand(t, define("A=1", "raw R=$A $$", "B=<$R>"))
		if r, b := value(got, "R"), value(got, "B"); r != "$A $$" || b != "<$A $$>" {
			t.Errorf("got %q and %q", r, b)
		}
	})
	t.Run("case 50: a file is its path in others, and its content as a value; expanding again changes nothing", func(t *testing.T) {
		t.Parallel()
		once := expand(t, define("file F=some top secret stuff", "REF=${F}", "PLAIN=bla", "REF_PLAIN=$PLAIN"))
		want := []string{"file F=some top secret stuff", "REF=/builds/project.tmp/F", "PLAIN=bla", "REF_PLAIN=bla"}
		if diff := cmp.Diff(want, list(once)); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(want, list(expand(t, once))); diff != "" {
			t.Error(diff)
		}
		if got, err := define("file F=text", "A=$F").ExpandForJob(nil); err != nil || value(got, "A") != "text" {
			t.Errorf("without paths: got %v, %v", got, err)
		}
	})
	t.Run("case 51: what is true", func(t *testing.T) {
		t.Parallel()
		for text, want := range map[string]bool{"true": true, "TRUE": true, "1": true, "-1": false, "100": false, "yes": false, "": false, "false": false, "0": false} {
			if got := define("B=" + text).Bool("B"); got != want {
				t.Errorf("%q is %v", text, got)
			}
		}
		if define().Bool("B") {
			t.Error("what is not set is true")
		}
	})
	t.Run("GitLab and the runner together keep a raw value raw", func(t *testing.T) {
		t.Parallel()
		sent, err := define("A=normal", "raw B=raw-$A", "C=$B", "D=$$A").Expand(variable.ForRunner)
		if err != nil {
			t.Fatal(err)
		}
		got := expand(t, sent)
		if c, d := value(got, "C"), value(got, "D"); c != "raw-$A" || d != "$A" {
			t.Errorf("got %q and %q", c, d)
		}
	})
}

func FuzzExpandInJob(f *testing.F) {
	for _, seed := range []string{"$A${B}$$", "${A", "${}", "$", "${@}x$1", "${$}", "$A_1-${A b}", "$ä${é}", "${", "${*", "${*}"} {
		f.Add(seed, "$B")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		c := variable.New(variable.Variable{Name: "A", Value: value}, variable.Variable{Name: "B", Value: "b"})
		got, err := c.ExpandInJob(text, path)
		if err != nil {
			return
		}
		want := os.Expand(text, func(name string) string {
			if name == "$" {
				return "$"
			}
			if len(name) == 1 && strings.Contains("*#@!?-0123456789", name) {
				return ""
			}
			v, _ := c.Lookup(name)
			return v
		})
		if got != want {
			t.Fatalf("%q: got %q, want %q", text, got, want)
		}
	})
}

func FuzzExpand(f *testing.F) {
	f.Add("$B", "${C}", "%A%", "$A", uint8(0))
	f.Add("$$B%%", "x$Bx", "%A", "${A", uint8(5))
	f.Add("$A", "$A", "$B$B$B", "%C%%C%", uint8(255))
	f.Fuzz(func(t *testing.T, a, b, c, again string, bits uint8) {
		in := variable.New(
			variable.Variable{Name: "A", Value: a, Raw: bits&1 != 0}, variable.Variable{Name: "B", Value: b, File: bits&2 != 0},
			variable.Variable{Name: "C", Value: c}, variable.Variable{Name: "A", Value: again},
		)
		o := variable.Options{KeepUndefined: bits&4 != 0, KeepFiles: bits&8 != 0, KeepRaw: bits&16 != 0}
		got, err := in.Expand(o)
		var circle *variable.CycleError
		var size *variable.SizeError
		switch {
		case errors.As(err, &circle):
			if diff := cmp.Diff(list(in), list(got)); diff != "" || len(circle.Cycles) == 0 {
				t.Fatal(diff)
			}
		case errors.As(err, &size):
		case err != nil:
			t.Fatal(err)
		case got.Len() != in.Len():
			t.Fatalf("%d of %d variables are left", got.Len(), in.Len())
		}
		joined := ""
		for _, name := range variable.References(a) {
			joined += name
		}
		if len(joined) > len(a) {
			t.Fatalf("%q refers to %q", a, joined)
		}
	})
}

func BenchmarkExpand(b *testing.B) {
	var lines []string
	for i := range 100 {
		lines = append(lines, fmt.Sprintf("V%d=$V%d/${X}", i, i+1), fmt.Sprintf("PLAIN%d=value", i))
	}
	c := define(append(lines, "X=x")...)
	for b.Loop() {
		if _, err := c.Expand(variable.ForRunner); err != nil {
			b.Fatal(err)
		}
	}
}
