package manager

import (
	"testing"

	"github.com/rungci/rung/manager/config"
)

func TestASlotIsFreeWhenTheLastOfItsAdoptedJobsHasLeft(t *testing.T) {
	t.Parallel()
	s, e := newSlots(3), &entry{runner: &config.Runner{}}
	s.occupy(e, 0)
	s.occupy(e, 0)
	if n := s.busy(); n != 2 {
		t.Errorf("%d jobs run", n)
	}
	s.leave(e, 0)
	if n, err := s.take(t.Context(), e); n != 1 || err != nil {
		t.Errorf("a job gets the slot %d, which is not free: %v", n, err)
	}
	s.leave(e, 0)
	if n, err := s.take(t.Context(), e); n != 0 || err != nil {
		t.Errorf("a job gets the slot %d: %v", n, err)
	}
}
