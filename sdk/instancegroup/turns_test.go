package instancegroup

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestOneCallAtATimeIsAtEachThing(t *testing.T) {
	t.Parallel()
	var all Turns
	done, err := all.Take(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	other, err := all.Take(t.Context(), "b")
	if err != nil {
		t.Fatal("another thing:", err)
	}
	other()
	ctx, cancel := context.WithCancelCause(t.Context())
	given := errors.New("given up")
	cancel(given)
	if _, err := all.Take(ctx, "a"); !errors.Is(err, given) {
		t.Error("a call that was given up:", err)
	}
	next := make(chan func())
	go func() {
		done, _ := all.Take(context.WithoutCancel(t.Context()), "a")
		next <- done
	}()
	select {
	case <-next:
		t.Fatal("two calls are at it")
	case <-time.After(10 * time.Millisecond):
	}
	done()
	(<-next)()
	if len(all.all) > 0 {
		t.Errorf("%d turns are kept", len(all.all))
	}
}
