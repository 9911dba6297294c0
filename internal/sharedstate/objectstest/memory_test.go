package objectstest_test

import (
	"testing"

	"github.com/rungci/rung/internal/sharedstate"
	"github.com/rungci/rung/internal/sharedstate/objectstest"
)

func TestMemory(t *testing.T) {
	objectstest.Run(t, func(*testing.T) sharedstate.Objects { return &objectstest.Memory{} })
}
