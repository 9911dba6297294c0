//go:build !linux

package process

import "github.com/rungci/rung/internal/confine"

// confinable says why the process cannot be confined on this system; nil if it need not be.
func (s *Spec) confinable() error {
	if s.Confine == nil {
		return nil
	}
	return s.failConfine(confine.Refusal())
}

// CanConfine says why processes cannot be confined on this machine; nil if they can.
func CanConfine() error { return confine.Refusal() }
