package engine_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAFailureNamesTheStepsOnTheWayToIt(t *testing.T) {
	tests := []struct {
		name  string
		depth int      // how many components call each other
		want  []string // the files of the places
	}{
		{"of one component", 1, []string{"c1/func.yml", "STEPS"}},
		{"of three", 3, []string{"c3/func.yml", "c2/func.yml", "c1/func.yml", "STEPS"}},
		{"of too many the nearest and the first", 14, []string{
			"c14/func.yml", "c13/func.yml", "c12/func.yml", "c11/func.yml", "c10/func.yml", "c9/func.yml", "c8/func.yml", "c7/func.yml", "c6/func.yml", "c5/func.yml", "STEPS",
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			files := map[string]string{}
			for i := 1; i < test.depth; i++ {
				files[fmt.Sprintf("c%d/func.yml", i)] = fmt.Sprintf("spec: {}\n---\nrun: [{name: next, step: ../c%d}]\n", i+1)
			}
			files[fmt.Sprintf("c%d/func.yml", test.depth)] = "spec: {}\n---\nexec: {script: exit 3}\n"
			r := job{files: files, steps: "- {name: first, step: ./c1}"}.run(t)
			if r.Error == nil {
				t.Fatal("it succeeded")
			}
			var got []string
			for i, d := range r.Error.Diagnostics {
				got = append(got, d.File)
				if called := d.Message == "called by this step"; called != (i > 0) || d.Note != called {
					t.Errorf("place %d is %v", i, d)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
