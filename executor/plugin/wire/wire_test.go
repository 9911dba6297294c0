package wire_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/host"
	"github.com/rungci/rung/executor/plugin/wire"
	"github.com/rungci/rung/internal/mask/masktest"
	"github.com/rungci/rung/steps/event"
)

// fill gives every field of a value another value than 0, so that one which is not passed on is missed.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key)
		fill(t, value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8, reflect.Uint16:
		v.SetUint(8)
	case reflect.Float64:
		v.SetFloat(0.5)
	case reflect.Func: // of what plugins are not told
	default:
		t.Fatalf("a %s is not filled: extend the test", v.Kind())
	}
}

func TestEveryFieldOfAJobAndOfWhatALevelCanCrossesTheWire(t *testing.T) {
	var job executor.Job
	fill(t, reflect.ValueOf(&job).Elem())
	job.Driver, job.Resources.Parent, job.ServiceResources.Parent = nil, "", "" // plugins are not told
	if diff := cmp.Diff(&job, wire.DecodeJob(wire.EncodeJob(&job))); diff != "" {
		t.Errorf("the job (-sent +received):\n%s", diff)
	}
	job = executor.Job{ID: "empty"}
	if diff := cmp.Diff(&job, wire.DecodeJob(wire.EncodeJob(&job))); diff != "" {
		t.Errorf("an empty job (-sent +received):\n%s", diff)
	}
	var can executor.Capabilities
	fill(t, reflect.ValueOf(&can).Elem())
	can.Driver = false
	if diff := cmp.Diff(can, wire.DecodeCapabilities(wire.EncodeCapabilities(can))); diff != "" {
		t.Errorf("capabilities (-sent +received):\n%s", diff)
	}
	var preparing event.Preparing
	fill(t, reflect.ValueOf(&preparing).Elem())
	if diff := cmp.Diff(preparing, wire.DecodePreparing(wire.EncodePreparing(preparing))); diff != "" {
		t.Errorf("reports (-sent +received):\n%s", diff)
	}
}

// The host and the record of uses are things of this process, and EngineFrom is a name for its errors.
func TestEveryFieldOfASetupButThingsOfThisProcessCrossesTheWire(t *testing.T) {
	var setup executor.Setup
	v := reflect.ValueOf(&setup).Elem()
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; name != "Host" && name != "Program" && name != "Uses" && name != "EngineFrom" {
			fill(t, v.Field(i))
		}
	}
	setup.Program = func(string, string) (string, error) { return "/bin/step-runner", nil }
	got := wire.DecodeSetup(wire.EncodeSetup(setup, "{}"))
	if file, err := got.Program("linux", "amd64"); err != nil || file != "/bin/step-runner" {
		t.Errorf("the program is %q, %v", file, err)
	}
	if _, err := got.Program("plan9", "mips"); err == nil {
		t.Error("there is a program for a system that there is none for")
	}
	setup.Program, got.Program = nil, nil
	if diff := cmp.Diff(setup, got); diff != "" {
		t.Errorf("(-sent +received):\n%s", diff)
	}
}

func TestErrorsCrossTheWireWithTheirIdentity(t *testing.T) {
	for _, sent := range []error{
		executor.ErrGone, &executor.Gone{Reason: "killed"}, &executor.Gone{Err: executor.ErrClosed}, fmt.Errorf("x: %w", &executor.Gone{Reason: "of memory", Err: executor.ErrOutOfMemory}),
		executor.ErrOwned, executor.ErrInUse, fs.ErrNotExist, host.ErrNoSpace, context.Canceled, executor.ErrOutOfMemory,
	} {
		got, ok := wire.FromStatus(wire.Status(fmt.Errorf("around: %w", sent)))
		if !ok {
			t.Errorf("%v: it has lost its details", sent)
		}
		for _, is := range []error{executor.ErrGone, executor.ErrClosed, executor.ErrOutOfMemory, executor.ErrOwned, executor.ErrInUse, fs.ErrNotExist, host.ErrNoSpace, context.Canceled} {
			if errors.Is(sent, is) != errors.Is(got, is) {
				t.Errorf("%v is %v: %t before, and %t behind the wire (%v)", sent, is, errors.Is(sent, is), errors.Is(got, is), got)
			}
		}
		var gone *executor.Gone
		if errors.As(got, &gone) && gone.Reason == "" && gone.Err == nil {
			t.Errorf("%v has lost its reason", sent)
		}
	}
	if got, _ := wire.FromStatus(wire.Status(&fs.PathError{Op: "write", Path: "/x", Err: syscall.ENOSPC})); !errors.Is(got, host.ErrNoSpace) || got.Error() != "write /x: no space left on device" {
		t.Errorf("a full disk is %v", got)
	}
	if wire.Status(nil) != nil {
		t.Error("nil is an error")
	}
	if _, ok := wire.FromStatus(errors.New("plain")); ok {
		t.Error("an error that did not cross the wire is taken for one that did")
	}
	deep := errors.New("the end")
	for range 100 {
		deep = &executor.UserError{Message: "m", Err: deep}
	}
	if got, ok := wire.FromStatus(wire.Status(deep)); !ok || got == nil {
		t.Error("a long chain is lost")
	}
}

func TestDurationsOfALeaseAreExact(t *testing.T) {
	s := wire.DecodeSetup(wire.EncodeSetup(executor.Setup{Lease: executor.Lease{Keep: 90*time.Minute + 1}}, ""))
	if s.Lease.Keep != 90*time.Minute+1 {
		t.Errorf("it is %s", s.Lease.Keep)
	}
}

func TestLongErrorsShowNoPartOfASecret(t *testing.T) {
	t.Parallel()
	masktest.Shortens(t, 16<<10, func(text string) string { return wire.Decode(wire.Encode(errors.New(text))).Error() })
}
