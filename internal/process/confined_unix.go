//go:build unix && !linux

package process

import "syscall"

func (c *child) startConfined(spec *Spec, _ string, _ *syscall.ProcAttr) error {
	return spec.confinable()
}

func (c *child) confinedResult() (Result, bool) { return Result{}, false }
