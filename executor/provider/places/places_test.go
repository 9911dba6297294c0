package places_test

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/executor/provider"
	"github.com/rungci/rung/executor/provider/places"
)

// source has as many places as anybody wants, and its machines are this one.
type source struct {
	make  func(ctx context.Context) error
	ended atomic.Int32
}

func (*source) Free(provider.Needs) provider.Capacity { return provider.Capacity{Free: 1} }
func (*source) Take(provider.Needs) (*int, error)     { return new(int), nil }
func (*source) Retake(json.RawMessage) (*int, error)  { return new(int), nil }
func (*source) Give(*int, string)                     {}
func (s *source) End(context.Context, *int) error     { s.ended.Add(1); return nil }
func (s *source) Make(ctx context.Context, _ *int, _ provider.Job, _ executor.Reporter) (*provider.Machine, error) {
	return &provider.Machine{Name: "here", Access: provider.Access{Protocol: provider.Local}}, s.make(ctx)
}

// What is not found because the provider is closed is there still: it is the next process's.
func TestAMachineWhoseRecoveryIsCutOffByCloseIsNotEnded(t *testing.T) {
	for range 50 {
		asked := make(chan struct{})
		s := &source{make: func(ctx context.Context) error {
			close(asked)
			<-ctx.Done()
			return context.Cause(ctx)
		}}
		p := places.New[*int](s, time.Minute)
		var calls sync.WaitGroup
		calls.Go(func() {
			if _, err := p.Recover(t.Context(), "key", nil); err == nil {
				t.Error("a machine was recovered that nobody has found")
			}
		})
		<-asked
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		calls.Wait()
		if s.ended.Load() != 0 {
			t.Fatal("the machine was ended")
		}
	}
}

func TestWhatIsGivenBackWhileTheProviderIsClosedOrLaterIsEnded(t *testing.T) {
	const keys = 4
	for range 50 {
		s := &source{make: func(context.Context) error { return nil }}
		p := places.New[*int](s, time.Minute)
		var calls sync.WaitGroup
		for key := range keys {
			key := string(rune('a' + key))
			if err := p.Reserve(t.Context(), key, provider.Needs{}); err != nil {
				t.Fatal(err)
			}
			if _, err := p.Acquire(t.Context(), key, provider.Job{}, nil); err != nil {
				t.Fatal(err)
			}
			calls.Go(func() {
				if err := p.Release(t.Context(), key, ""); err != nil {
					t.Error(err)
				}
			})
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		calls.Wait()
		if n := s.ended.Load(); n != keys {
			t.Fatalf("%d of %d machines were ended", n, keys)
		}
	}
}
