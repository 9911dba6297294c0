package yamlsource_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/internal/yamlsource"
)

func parseWith(t *testing.T, text string, options yamlsource.Options) *yamlsource.File {
	t.Helper()
	f, err := yamlsource.ParseWith("f.yml", []byte(text), options)
	if err == nil {
		err = f.Err()
	}
	if err != nil {
		t.Fatalf("parsing %q: %v", text, err)
	}
	return f
}

func TestOptions(t *testing.T) {
	blocks := yamlsource.Options{Open: "$[[", Close: "]]"}
	last := yamlsource.Options{LastKeyWins: true}
	old := yamlsource.Options{YAML11: true}
	for _, tt := range []struct {
		name, text, want string
		options          yamlsource.Options
	}{
		{"a block may be in a list in brackets", "[$[[ a ]], $[[ b | f(1,2) ]]]", `["$[[ a ]]","$[[ b | f(1,2) ]]"]`, blocks},
		{"a block may be in a map in braces", "{a: $[[ x ]], b: $[[y]]z}", `{"a":"$[[ x ]]","b":"$[[y]]z"}`, blocks},
		{"a block may be a key", "$[[ x ]]-a: 1", `{"$[[ x ]]-a":1}`, blocks},
		{"a block may hold a colon and a number sign", "a: $[[ x | split(': #') ]]", `{"a":"$[[ x | split(': #') ]]"}`, blocks},
		{"quotes keep their meaning in a block", `a: "$[[ x | f(\"b\") ]]"`, `{"a":"$[[ x | f(\"b\") ]]"}`, blocks},
		{"a block that is never closed is YAML", "a: $[[ x", `{"a":"$[[ x"}`, blocks},
		{"a block ends on its line", "a: $[[ x\nb: '{ ]]'", `{"a":"$[[ x","b":"{ ]]"}`, blocks},
		{"text of the private area is left alone", "a: \U000F0024$[[ b ]]", "{\"a\":\"\U000F0024$[[ b ]]\"}", blocks},

		{"the last of several keys wins", "a: 1\nb: 2\na: 3", `{"a":3,"b":2}`, last},
		{"every merge key is merged, the last one first", "- &x {a: 1, b: 1}\n- &y {b: 2}\n- {<<: *x, <<: *y, c: 3}", `[{"a":1,"b":1},{"b":2},{"a":1,"b":2,"c":3}]`, last},

		{"yes and off are booleans of YAML 1.1", "[yes, On, no, OFF, 'yes', yesno, !!str yes, y]", `[true,true,false,false,"yes","yesno","yes","y"]`, old},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := string(parseWith(t, tt.text, tt.options).Documents[0].Value().AppendJSON(nil))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestKeysThatAreReplacedAreWarnedOf(t *testing.T) {
	f := parseWith(t, "a: 1\nb: 2\na: 3\na: 4", yamlsource.Options{LastKeyWins: true})
	want := "f.yml:3:1: the key \"a\" is already set on line 1, and this one replaces it\n" +
		"f.yml:4:1: the key \"a\" is already set on line 1, and this one replaces it"
	if diff := cmp.Diff(want, f.Warnings.Error()); diff != "" {
		t.Error(diff)
	}
}

func TestPlacesInBlocks(t *testing.T) {
	f := parseWith(t, "a: [ $[[ one, two ]], three ]", yamlsource.Options{Open: "$[[", Close: "]]"})
	list := f.Documents[0].Get("a")
	if got := list.Items[1].Span.Column; got != 23 {
		t.Errorf("what follows a block is at column %d, want 23", got)
	}
	place := f.At(list.Items[0], 9, 3)
	if place.Column != 15 || place.Length != 3 {
		t.Errorf("the third word is at column %d with length %d, want 15 and 3", place.Column, place.Length)
	}
	if source := f.Diagnostic(place, "", "x").Source; source != "a: [ $[[ one, two ]], three ]" {
		t.Errorf("the source line is %q", source)
	}
}

func TestShared(t *testing.T) {
	f := parseWith(t, "a: &x {b: 1}\nc: *x\nd: {b: 1}\ne: {<<: *x}", yamlsource.Options{})
	root := f.Documents[0]
	if !root.Get("a").Shared() || root.Get("d").Shared() || !root.Get("e").Get("b").Shared() {
		t.Error("Shared should hold for what aliases and merge keys repeat, and for nothing else")
	}
}

// FuzzParseWith holds the options to what holds for Parse: no text makes them panic, and every place is in the text.
func FuzzParseWith(f *testing.F) {
	for _, seed := range []string{"a: [$[[ x ]], $[[ y | f(',') ]]]", "{a: 1, a: 2, <<: {b: 3}, <<: {c: 4}}", "- yes\n- \U000F0024", "\"$[[ a\\\"]]\": '$[['']]'", "$[[ é ]]: x"} {
		f.Add(seed)
	}
	options := yamlsource.Options{Tags: []string{"!reference"}, YAML11: true, LastKeyWins: true, Open: "$[[", Close: "]]"}
	f.Fuzz(func(t *testing.T, text string) {
		file, err := yamlsource.ParseWith("f.yml", []byte(text), options)
		if err != nil {
			return
		}
		var walk func(n *yamlsource.Node)
		walk = func(n *yamlsource.Node) {
			if place := file.At(n, 1, 2); place.Line < 0 || place.Column < 0 {
				t.Fatalf("the place is %v", place)
			}
			_ = n.Value()
			for _, it := range n.Items {
				walk(it)
			}
			for _, e := range n.Entries {
				walk(e.Key)
				walk(e.Value)
			}
		}
		for _, doc := range file.Documents {
			walk(doc)
		}
		_ = file.Err()
	})
}
