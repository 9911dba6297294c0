package cgroup

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
)

// DefaultSlot is the template of GitLab Runner's slot_cgroup_template (docs/configuration/slot_based_cgroups.md, 18.6).
const DefaultSlot = "gitlab-runner/slot-${slot}"

// Slot is the group that a template of slot_cgroup_template means for the slot with a number: "${slot}" and "$slot" are replaced. An empty
// template is DefaultSlot. The name of a systemd slice without a folder is the folder that systemd has for it.
func Slot(template string, slot int) (string, error) {
	if template == "" {
		template = DefaultSlot
	}
	var unknown []string
	name := os.Expand(template, func(variable string) string {
		if variable != "slot" {
			unknown = append(unknown, variable)
		}
		return strconv.Itoa(slot)
	})
	switch {
	case slot < 0:
		return "", fmt.Errorf("there is no slot %d", slot)
	case len(unknown) > 0:
		return "", fmt.Errorf("slot_cgroup_template %q: $%s is unknown; write ${slot}", template, unknown[0])
	}
	name = slice(strings.TrimPrefix(name, "/"))
	if err := checkSlot(name); err != nil {
		return "", fmt.Errorf("slot_cgroup_template %q: %w", template, err)
	}
	return name, nil
}

// SlotName is a template with the number of the slot, as systemd-run and cgexec take it: the name of a slice stays one. The errors are those of Slot.
func SlotName(template string, slot int) (string, error) {
	if _, err := Slot(template, slot); err != nil {
		return "", err
	}
	number := strconv.Itoa(slot)
	return os.Expand(cmp.Or(template, DefaultSlot), func(string) string { return number }), nil
}

// checkSlot refuses what would be made somewhere else than below the top.
func checkSlot(name string) error {
	if name == "" || path.IsAbs(name) || path.Clean(name) != name || name == "." || name == ".." || strings.HasPrefix(name, "../") || strings.ContainsAny(name, "$\x00\n") {
		return fmt.Errorf("%q does not name a control group: write a path such as gitlab-runner/slot-0", name)
	}
	return nil
}

// slice returns the folder of a systemd slice, whose name says which others it is in: a-b.slice is a.slice/a-b.slice (systemd.slice(5)).
func slice(name string) string {
	const suffix = ".slice"
	stem, is := strings.CutSuffix(name, suffix)
	if !is || strings.Contains(name, "/") {
		return name
	}
	var folders []string
	for i, r := range stem + "-" {
		if r == '-' && i > 0 {
			folders = append(folders, stem[:i]+suffix)
		}
	}
	return strings.Join(folders, "/")
}
