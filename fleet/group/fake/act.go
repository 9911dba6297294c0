package fake

import (
	"context"
	"os"
	"time"
)

// Act is what happens in a call. The call goes on if it returns nil.
type Act func(ctx context.Context, c Call) error

// On is an act for the calls of a name; others go on.
func On(name string, act Act) Act {
	return func(ctx context.Context, c Call) error {
		if c.Name != name {
			return nil
		}
		return act(ctx, c)
	}
}

// First is an act for the first n calls of each name.
func First(n int, act Act) Act {
	return func(ctx context.Context, c Call) error {
		if c.N >= n {
			return nil
		}
		return act(ctx, c)
	}
}

// All are several acts, one after the other.
func All(acts ...Act) Act {
	return func(ctx context.Context, c Call) error {
		for _, act := range acts {
			if err := act(ctx, c); err != nil {
				return err
			}
		}
		return nil
	}
}

// Fail lets a call fail.
func Fail(err error) Act { return func(context.Context, Call) error { return err } }

// Delay lets a call take longer, by a clock.
func Delay(clock Clock, d time.Duration) Act {
	return func(ctx context.Context, _ Call) error { return sleep(ctx, clock, d) }
}

// Hang lets a call wait until its context ends.
func Hang(ctx context.Context, _ Call) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// Stick lets a call hang whatever its context says.
func Stick(context.Context, Call) error { select {} }

// Panic lets a call panic.
func Panic(context.Context, Call) error { panic("the fake group was told to panic") }

// Die ends the program, as a bug of a plugin can.
func Die(context.Context, Call) error {
	os.Exit(exitCode)
	return nil
}

// exitCode is that of a program which Die has ended.
const exitCode = 66
