package cache

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/rungci/rung/internal/pack"
	"github.com/rungci/rung/steps/catalog/cachekey"
	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/catalog/selection"
	"github.com/rungci/rung/steps/value"
)

type restoreInputs struct {
	Key          string            `json:"key"`
	FallbackKeys []string          `json:"fallback_keys"`
	Location     string            `json:"location"`
	URLs         map[string]string `json:"urls"`
}

// Restore is builtin://cache/restore.
func Restore(ctx context.Context, call *program.Call) error {
	var in restoreInputs
	if err := call.Decode(&in); err != nil {
		return err
	}
	candidates, problems := cachekey.Candidates(in.Key, in.FallbackKeys, "")
	for _, p := range problems {
		selection.Warn(call, "%v", p)
	}
	from, err := restoreFrom(call, in, candidates)
	if err != nil {
		selection.Warn(call, "no cache is unpacked: %v", err)
		return nil
	}
	if from == nil {
		fmt.Fprintln(call.Stdout, "no location and no address is given; the cache is not downloaded")
		return nil
	}
	for _, c := range candidates {
		fmt.Fprintf(call.Stdout, "Checking cache for %s...\n", c.Key)
		err := restore(ctx, call, from, c.Key)
		switch {
		case err == nil:
			return call.Output("key", value.OfString(c.Key))
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, errMissing):
			fmt.Fprintln(call.Stdout, errMissing)
		default:
			selection.Warn(call, "the cache %s is not unpacked: %v", c.Key, err)
		}
	}
	return nil
}

// restoreFrom returns the store that the inputs name; nil when they name none.
func restoreFrom(call *program.Call, in restoreInputs, candidates []cachekey.Candidate) (store, error) {
	if len(in.URLs) == 0 {
		if in.Location == "" {
			return nil, nil
		}
		return open(call, in.Location)
	}
	s := &address{client: client(call), urls: map[string]string{}}
	for _, c := range candidates {
		for _, key := range []string{c.Raw, c.Key} {
			if target, ok := in.URLs[key]; ok {
				s.urls[c.Key] = target
			}
		}
	}
	return s, nil
}

func restore(ctx context.Context, call *program.Call, from store, key string) error {
	f, done, err := from.get(ctx, key)
	if err != nil {
		return err
	}
	defer done()
	return extract(ctx, call, f)
}

func extract(ctx context.Context, call *program.Call, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	summary, err := pack.Extract(ctx, f, info.Size(), call.WorkDir, pack.ExtractOptions{})
	if err != nil {
		return err
	}
	for _, w := range summary.Warnings {
		selection.Warn(call, "%s", w)
	}
	fmt.Fprintf(call.Stdout, "Successfully extracted cache: %s, %d bytes\n", selection.Count(summary.Entries, "entry", "entries"), summary.Bytes)
	return nil
}
