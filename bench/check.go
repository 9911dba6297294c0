//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// checkFigures are those of `step-runner check`, scaled as those of pipelines are.
var checkFigures = []figure{{name: "check of 1,000 steps", unit: "ms", target: 100, measure: checking(1000)}}

// checking times the check of a list in which steps read each other's outputs, and every other one calls one of a hundred components.
func checking(steps int) func(*world) (float64, string, error) {
	return func(w *world) (float64, string, error) {
		const components = 100
		memory, err := w.memory()
		if err != nil {
			return 0, "", err
		}
		dir := filepath.Join(memory, "check")
		for i := range components {
			folder := filepath.Join(dir, fmt.Sprintf("c%d", i))
			if err := os.MkdirAll(folder, 0o755); err != nil {
				return 0, "", err
			}
			text := fmt.Sprintf("spec:\n  inputs: {text: {type: string}, number: {type: number, default: 1}}\n  outputs: {out: {type: string}}\n  env: {NAME%[1]d: {}}\n---\n"+
				"exec:\n  script: |\n    printf '%%s' \"$NAME%[1]d ${{ inputs.text }} ${{ inputs.number }}\"\n    echo '{\"name\":\"out\",\"value\":\"x\"}' >>${{ output_file }}\n", i)
			if err := os.WriteFile(filepath.Join(folder, "func.yml"), []byte(text), 0o644); err != nil {
				return 0, "", err
			}
		}
		var b strings.Builder
		b.WriteString("- {name: s0, step: ./c0, inputs: {text: first}}\n")
		for i := 1; i < steps; i++ {
			if i%2 == 0 {
				fmt.Fprintf(&b, "- name: s%d\n  step: ./c%d\n  inputs: {text: '${{ steps.s%d.outputs.out }}', number: %d}\n", i, i%components, i-2, i)
			} else {
				fmt.Fprintf(&b, "- name: s%d\n  script: echo ${{ steps.s%d.outputs.out }} ${{ vars.ANY }}\n", i, i-1)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "steps.yml"), []byte(b.String()), 0o644); err != nil {
			return 0, "", err
		}
		return w.median(command{args: []string{w.runner, "check", "--strict", "steps.yml"}, dir: dir}, "")
	}
}
