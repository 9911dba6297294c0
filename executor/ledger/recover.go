package ledger

import (
	"errors"
	"fmt"

	"github.com/rungci/rung/executor"
)

// Recover is Adopt of all entries of an environment, with the errors of a level's Recover: executor.ErrOwned while the process that has it lives, and
// an executor.Gone where there is nothing to take over.
func (l *Ledger) Recover(environment string, entries ...string) error {
	err := l.Adopt(entries...)
	switch {
	case errors.Is(err, ErrOwned):
		return fmt.Errorf("%w: %s", executor.ErrOwned, environment)
	case errors.Is(err, ErrUnknown):
		return &executor.Gone{Reason: "it was removed, or it belongs to another owner", Err: err}
	}
	return err
}
