package pipeline_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rungci/rung/steps/frontend/gitlabci/config"
	"github.com/rungci/rung/steps/frontend/gitlabci/keyword"
	"github.com/rungci/rung/steps/frontend/gitlabci/pipeline"
)

// pipelineText is what becomes of a definition: its jobs with what they run and wait for, or the first word of what is wrong.
func pipelineText(t *testing.T, text string) string {
	t.Helper()
	c, err := config.Resolve(t.Context(), ".gitlab-ci.yml", []byte(text), config.Options{})
	if err != nil {
		return "refused"
	}
	d, wrong := keyword.Read(c)
	if len(wrong) > 0 {
		return "refused"
	}
	p, err := pipeline.New(d, onMain())
	if err != nil {
		return "refused"
	}
	var out []string
	for _, j := range p.Jobs {
		var lines []string
		for _, l := range j.Keywords.Script {
			lines = append(lines, l.Text)
		}
		line := j.Name + " = " + strings.Join(lines, "; ")
		if j.Needs != nil {
			line += " < " + strings.Join(edges(j), " + ")
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// TestGitLabsSpecsOfExpressions holds the meaning of rules:if that GitLab's own specs give (spec/lib/gitlab/ci/pipeline/expression).
func TestGitLabsSpecsOfExpressions(t *testing.T) {
	const given = `
variables: {FRUIT: green apple, ROUTE: farm/north/gate, ROOTED: /farm/north/gate, NONE: "", STARTS: /^gr/, ENDS: /pear$/}
job:
  script: x
  rules: [{if: '%s'}]
`
	for expression, holds := range map[string]bool{
		`$FRUIT == "green apple"`: true, `"green apple" == $FRUIT`: true, `$FRUIT == null`: false, `$NONE == null`: false, `"" == $NONE`: true,
		`$NONE`: false, `$MISSING == null`: true, `null == $MISSING`: true, `$FRUIT`: true, `$MISSING`: false,
		`$FRUIT =~ /ap.*e$/`: true, `$FRUIT =~ /^apple/`: false, `$NONE =~ /ap.*/`: false, `$MISSING =~ /ap.*/`: false, `$FRUIT =~ /APP.*/i`: true,
		`$ROUTE =~ /farm\/north/`: true, `$ROOTED =~ /^\/farm\/north\/gate$/`: true,
		`$FRUIT != "green apple"`: false, `$NONE != null`: true, `$MISSING != null`: false, `"" != $NONE`: false,
		`$FRUIT !~ /ap.*e$/`: false, `$FRUIT !~ /^apple/`: true, `$NONE !~ /ap/`: true, `$MISSING !~ /ap/`: true, `$FRUIT !~ /APP/i`: false,
		`$FRUIT && "text"`: true, `$FRUIT && $NONE`: false, `$NONE && $FRUIT`: true, `null && $FRUIT`: false, `$FRUIT && null`: false, `"text" && $NONE`: false,
		`$FRUIT =~ /green/ && $NONE =~ /no/`: false, `$NONE == "" && $FRUIT != "no"`: true, `$MISSING && $NONE`: false,
		`$FRUIT =~ /green/ || $NONE =~ /no/`: true, `$FRUIT && null || $NONE == ""`: true, `$MISSING || $FRUIT`: true,
		`$NONE || $FRUIT`: false, // the text on the left is one, be it empty
		`(($FRUIT))`:      true, `($FRUIT) && (null || $NONE == "")`: true, `("a" || "b") == "a"`: true, `(null || ("a" == "b"))`: false,
		`("b" == ("a" && "b"))`: true, `("b" == ("a" || "b"))`: false, `("a" == ("a" || (("1" == "1") && ("2" == "3"))))`: true,
		`$FRUIT =~ "apple"`: false, `"apple" =~ $FRUIT`: true, `$FRUIT =~ $FRUIT`: true, `$FRUIT =~ $STARTS`: true, `$FRUIT =~ $ENDS`: false,
	} {
		want := ""
		if holds {
			want = "job = x"
		}
		if got := pipelineText(t, fmt.Sprintf(given, expression)); got != want && (holds || got != "refused") {
			t.Errorf("%s: got %q, want %q", expression, got, want)
		}
	}
}

// TestGitLabsSpecsOfDefinitions holds what GitLab's own specs say of extends, !reference, parallel and needs (spec/lib/gitlab/ci/config).
func TestGitLabsSpecsOfDefinitions(t *testing.T) {
	const refused = "refused"
	const grid = "cook: {script: x, parallel: {matrix: [{OVEN: [gas], PAN: [iron, clay]}]}}\n"
	const kitchens = "cook: {script: x, parallel: {matrix: [{OVEN: [gas], PAN: [iron, clay], LID: [shut, open]}, {OVEN: [wood], FIRE: [low, high]}]}}\n"
	for name, tt := range map[string]struct{ text, want string }{
		"extends: the job's own script stays":  {".base: {script: bake, stage: build}\njob: {extends: .base, script: fry}", "job = fry"},
		"extends: over two levels":             {".a: {script: boil}\n.b: {extends: .a, stage: build}\njob: {extends: .b}", "job = boil"},
		"extends: a job that is not hidden":    {"base: {script: bake}\njob: {extends: base}", "base = bake\njob = bake"},
		"extends: the last of several decides": {".a: {script: one}\n.b: {script: two}\njob: {extends: [.a, .b]}", "job = two"},
		"extends: itself":                      {"job: {extends: job, script: x}", refused},
		"extends: a circle":                    {".a: {extends: .b}\n.b: {extends: .a}\njob: {extends: .b, script: x}", refused},
		"extends: a number":                    {"job: {extends: 1, script: x}", refused},
		"extends: a text":                      {".a: words\njob: {extends: .a, script: x}", refused},
		"extends: nobody":                      {"job: {extends: .nobody, script: x}", refused},

		"reference: lists in a list":                {".a: {script: [one, two]}\n.c: {d: {e: [three]}}\njob: {script: [!reference [.a, script], mid, !reference [.c, d, e]]}", "job = one; two; mid; three"},
		"reference: before what it names":           {"job: {script: !reference [.z, script]}\n.z: {script: [!reference [.y, v]]}\n.y: {v: late}", "job = late"},
		"reference: a value in a map that is named": {".a: {b: {c: hello}}\n.e: {f: {script: !reference [.a, b, c]}}\njob: !reference [.e, f]", "job = hello"},
		"reference: through a list of maps":         {".a: x\n.r: [{when: always, variables: {V: !reference [.a]}}]\njob: {script: y, rules: !reference [.r]}", "job = y"},
		"reference: a circle":                       {".a: !reference [.b]\n.b: !reference [.a]\njob: {script: x}", refused},
		"reference: a nested circle":                {".a: !reference [.b, c]\n.b: {c: !reference [.d, e]}\n.d: {e: !reference [.a]}\njob: {script: x}", refused},
		"reference: nothing there":                  {"job: {script: !reference [.b]}", refused},
		"reference: a key of a list":                {".a: [1, 2]\njob: {script: !reference [.a, b]}", refused},
		"reference: empty":                          {"job: {script: !reference }", refused},
		"reference: a text":                         {"job: {script: !reference text}", refused},
		"reference: a map":                          {"job: {script: !reference {a: b}}", refused},
		"reference: a number in the list":           {"job: {script: !reference [1]}", refused},

		"parallel: a number":                  {"cook: {script: x, parallel: 3}", "cook 1/3 = x\ncook 2/3 = x\ncook 3/3 = x"},
		"parallel: a slash in the name":       {"cook 35/2: {script: x, parallel: 2}", "cook 35/2 1/2 = x\ncook 35/2 2/2 = x"},
		"parallel: needs stand for all":       {"cook: {script: x, parallel: 2}\neat: {script: y, needs: [cook]}", "cook 1/2 = x\ncook 2/2 = x\neat = y < cook 1/2 + cook 2/2"},
		"parallel: with another that is none": {"cook: {script: x, parallel: 2}\nlay: {script: z}\neat: {script: y, needs: [cook, lay]}", "cook 1/2 = x\ncook 2/2 = x\nlay = z\neat = y < cook 1/2 + cook 2/2 + lay"},
		"matrix: the order of the values":     {grid, "cook: [gas, iron] = x\ncook: [gas, clay] = x"},
		"matrix: needs of a copy": {
			grid + "eat: {script: y, needs: [{job: cook, parallel: {matrix: [{OVEN: [gas], PAN: [clay]}]}}]}", "cook: [gas, iron] = x\ncook: [gas, clay] = x\neat = y < cook: [gas, clay]",
		},
		"matrix: needs of copies of several entries": {
			kitchens + "eat: {script: y, needs: [{job: cook, parallel: {matrix: [{OVEN: [gas], PAN: [iron, clay], LID: [shut]}, {OVEN: [wood], FIRE: [low]}]}}]}",
			"cook: [gas, iron, shut] = x\ncook: [gas, iron, open] = x\ncook: [gas, clay, shut] = x\ncook: [gas, clay, open] = x\ncook: [wood, low] = x\ncook: [wood, high] = x\n" +
				"eat = y < cook: [gas, iron, shut] + cook: [gas, clay, shut] + cook: [wood, low]",
		},
		"matrix: needs of a part of the variables": {grid + "eat: {script: y, needs: [{job: cook, parallel: {matrix: [{OVEN: [gas]}]}}]}", refused},
		"matrix: expressions, one to one": {
			grid + "eat: {script: y, parallel: {matrix: [{OVEN: [gas], PAN: [iron, clay]}]}, needs: [{job: cook, parallel: {matrix: [{OVEN: ['$[[ matrix.OVEN ]]'], PAN: ['$[[ matrix.PAN ]]']}]}}]}",
			"cook: [gas, iron] = x\ncook: [gas, clay] = x\neat: [gas, iron] = y < cook: [gas, iron]\neat: [gas, clay] = y < cook: [gas, clay]",
		},
		"matrix: an expression of nothing": {
			grid + "eat: {script: y, parallel: {matrix: [{OVEN: [gas]}]}, needs: [{job: cook, parallel: {matrix: [{OVEN: ['$[[ matrix.OVEN ]]'], PAN: ['$[[ matrix.POT ]]']}]}}]}", refused,
		},
		"needs: an empty list":             {"eat: {stage: deploy, script: y, needs: []}", "eat = y < "},
		"needs: null in the list":          {"a: {script: x}\neat: {script: y, needs: [null, a]}", "a = x\neat = y < a"},
		"needs: an empty name":             {"eat: {script: y, needs: [\"\"]}", refused},
		"needs: null for artifacts":        {"a: {script: x}\neat: {script: y, needs: [{job: a, artifacts: null}]}", "a = x\neat = y < a"},
		"needs: an unknown key":            {"a: {script: x}\neat: {script: y, needs: [{job: a, some: thing}]}", refused},
		"needs: nobody":                    {"eat: {script: y, needs: [nobody]}", refused},
		"needs: nobody, who is optional":   {"eat: {script: y, needs: [{job: nobody, optional: true}]}", "eat = y < "},
		"needs: another pipeline's job":    {"eat: {script: y, needs: [{pipeline: $UPSTREAM, job: a}]}", "eat = y < "},
		"needs: a key beside the pipeline": {"eat: {script: y, needs: [{pipeline: $UPSTREAM, job: a, some: thing}]}", refused},
	} {
		t.Run(name, func(t *testing.T) {
			if got := pipelineText(t, tt.text+"\n"); got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}
