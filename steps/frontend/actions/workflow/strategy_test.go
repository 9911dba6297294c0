package workflow_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/steps/diag"
)

func TestLegsOfAMatrix(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keys     string
		contexts string
		want     []string // NAME MATRIX
	}{
		"no strategy":                {"", "", []string{"a null"}},
		"one name":                   {"strategy: {matrix: {v: [10, 12]}}", "", []string{`a (10) {"v":10}`, `a (12) {"v":12}`}},
		"the first name varies last": {"strategy: {matrix: {os: [l, w], v: [1, 2]}}", "", []string{`a (l, 1) {"os":"l","v":1}`, `a (l, 2) {"os":"l","v":2}`, `a (w, 1) {"os":"w","v":1}`, `a (w, 2) {"os":"w","v":2}`}},
		"exclude": {"strategy: {matrix: {os: [l, w], v: [1, 2], exclude: [{os: L, v: 1}, {v: '2', os: w}]}}", "",
			[]string{`a (l, 2) {"os":"l","v":2}`, `a (w, 1) {"os":"w","v":1}`}},
		"exclude by one name": {"strategy: {matrix: {os: [l, w], v: [1, 2], exclude: [{os: l}]}}", "",
			[]string{`a (w, 1) {"os":"w","v":1}`, `a (w, 2) {"os":"w","v":2}`}},
		"everything excluded": {"strategy: {matrix: {os: [l], exclude: [{os: l}]}}", "", nil},
		"include, as GitHub's documents have it": {`strategy:
  matrix:
    fruit: [apple, pear]
    animal: [cat, dog]
    include:
      - color: green
      - color: pink
        animal: cat
      - fruit: apple
        shape: circle
      - fruit: banana
      - fruit: banana
        animal: cat`, "", []string{
			`a (apple, cat) {"animal":"cat","color":"pink","fruit":"apple","shape":"circle"}`,
			`a (apple, dog) {"animal":"dog","color":"green","fruit":"apple","shape":"circle"}`,
			`a (pear, cat) {"animal":"cat","color":"pink","fruit":"pear"}`,
			`a (pear, dog) {"animal":"dog","color":"green","fruit":"pear"}`,
			`a (banana) {"fruit":"banana"}`,
			`a (banana, cat) {"animal":"cat","fruit":"banana"}`,
		}},
		"include alone": {"strategy: {matrix: {include: [{site: p, dc: x}, {site: q}]}}", "", []string{`a (p, x) {"dc":"x","site":"p"}`, `a (q) {"site":"q"}`}},
		"include never overwrites": {"strategy: {matrix: {os: [l], include: [{os: w, x: 1}]}}", "",
			[]string{`a (l) {"os":"l"}`, `a (w, 1) {"os":"w","x":1}`}},
		"names without regard to case": {"strategy: {matrix: {os: [l], include: [{OS: l, x: 1}]}}", "", []string{`a (l) {"os":"l","x":1}`}},
		"maps as values": {"strategy: {matrix: {v: [{node: 12, env: NODE, no: null}, {node: 14}], exclude: [{v: {node: 14}}]}}", "",
			[]string{`a (12, NODE) {"v":{"env":"NODE","no":null,"node":12}}`}},
		"lists as values":     {"strategy: {matrix: {v: [[1, 2], [3]], exclude: [{v: [3]}]}}", "", []string{`a (1, 2) {"v":[1,2]}`}},
		"booleans and blanks": {"strategy: {matrix: {v: [true, '', 1.50]}}", "", []string{`a (true) {"v":true}`, `a {"v":""}`, `a (1.5) {"v":1.5}`}},
		"numbers of YAML 1.2": {"strategy: {matrix: {v: [010, 1_0]}}", "", []string{`a (10) {"v":10}`, `a (1_0) {"v":"1_0"}`}},
		"a matrix of a job before": {"needs: b\nstrategy: {matrix: '${{ fromJSON(needs.b.outputs.m) }}'}", `{"needs": {"b": {"outputs": {"m": "{\"os\":[\"l\",\"w\"],\"include\":[{\"os\":\"l\",\"x\":1}]}"}}}}`,
			[]string{`a (l) {"os":"l","x":1}`, `a (w) {"os":"w"}`}},
		"a vector of a job before": {"needs: b\nstrategy: {matrix: {v: '${{ fromJSON(needs.b.outputs.m) }}', os: [l]}}", `{"needs": {"b": {"outputs": {"m": "[1,2]"}}}}`,
			[]string{`a (1, l) {"os":"l","v":1}`, `a (2, l) {"os":"l","v":2}`}},
		"include of a job before": {"needs: b\nstrategy: {matrix: {v: [1], include: '${{ fromJSON(needs.b.outputs.m) }}'}}", `{"needs": {"b": {"outputs": {"m": "[{\"v\":2}]"}}}}`,
			[]string{`a (1) {"v":1}`, `a (2) {"v":2}`}},
		"a whole strategy":            {"strategy: '${{ fromJSON(vars.s) }}'", `{"vars": {"s": "{\"fail-fast\":false,\"matrix\":{\"v\":[1]}}"}}`, []string{`a (1) {"v":1}`}},
		"values that are computed":    {"strategy: {matrix: {v: ['x-${{ github.ref }}']}}", `{"github": {"ref": "r"}}`, []string{`a (x-r) {"v":"x-r"}`}},
		"a name of its own":           {"name: Test\nstrategy: {matrix: {v: [1]}}", "", []string{`Test (1) {"v":1}`}},
		"a name that is computed":     {"name: Test on ${{ matrix.v }}\nstrategy: {matrix: {v: [1]}}", "", []string{`Test on 1 {"v":1}`}},
		"a name that comes to nought": {"name: ${{ github.x }}\nstrategy: {matrix: {v: [1]}}", "", []string{`a (1) {"v":1}`}},
		"a long name":                 {"name: " + strings.Repeat("x", 120), "", []string{strings.Repeat("x", 97) + "... null"}},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(withJob(c.keys+"\n"), "jobs:\n", "jobs:\n  b: {runs-on: x, outputs: {m: x}, steps: [{run: x}]}\n", 1)
			j := parse(t, text).Job("A")
			var got []string
			if c.contexts == "" {
				c.contexts = "{}"
			}
			for i, l := range legs(t, j, contexts(t, c.contexts)).List {
				if l.Index != i {
					t.Errorf("the leg %d is %d", i, l.Index)
				}
				got = append(got, l.Name+" "+string(l.Matrix.AppendJSON(nil)))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestTheStrategyContext(t *testing.T) {
	t.Parallel()
	l := legs(t, job(t, "strategy: {fail-fast: false, max-parallel: 2, matrix: {v: [1, 2, 3]}}\n"), nil)
	if l.FailFast || l.MaxParallel != 2 {
		t.Errorf("%+v", l)
	}
	if got := string(l.List[1].Strategy.AppendJSON(nil)); got != `{"fail-fast":false,"job-index":1,"job-total":3,"max-parallel":2}` {
		t.Error(got)
	}
	l = legs(t, job(t, ""), nil)
	if got := string(l.List[0].Strategy.AppendJSON(nil)); !l.FailFast || l.MaxParallel != 0 || got != `{"fail-fast":true,"job-index":0,"job-total":1,"max-parallel":1}` {
		t.Error(l, got)
	}
}

func TestLegsThatCannotBe(t *testing.T) {
	t.Parallel()
	many := "[" + strings.TrimSuffix(strings.Repeat("1,", 257), ",") + "]"
	for name, c := range map[string]struct{ matrix, v, want string }{
		"257 of them":                    {"{v: '${{ fromJSON(vars.v) }}'}", many, "ci.yml:6:24: the matrix makes 257 jobs, and 256 is the most"},
		"a string for a list":            {"{v: '${{ vars.v }}'}", "x", `ci.yml:6:28: "v" in the matrix must be a list, not "x"`},
		"a list for a map":               {"'${{ fromJSON(vars.v) }}'", "[1]", "the matrix must be a map, not an array"},
		"no values":                      {"{v: '${{ fromJSON(vars.v) }}'}", "[]", `"v" in the matrix has no values`},
		"text that is not JSON":          {"{v: '${{ fromJSON(vars.v) }}'}", "[", "fromJSON"},
		"a name of exclude that is none": {"'${{ fromJSON(vars.v) }}'", `{"a":[1],"exclude":[{"b":1}]}`, `"b" is excluded`},
	} {
		j := job(t, "strategy: {matrix: "+c.matrix+"}\n")
		vars := contexts(t, `{"vars": {"v": `+quote(c.v)+`}}`)
		if _, err := j.Legs(vars); err == nil || len(diag.Of(err)) != 1 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func quote(s string) string { return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"` }
