package cache

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/rungci/rung/internal/glob"
	"github.com/rungci/rung/internal/pack"
	"github.com/rungci/rung/steps/catalog/cache/bucket"
	"github.com/rungci/rung/steps/catalog/cachekey"
	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/catalog/selection"
	"github.com/rungci/rung/steps/value"
)

type saveInputs struct {
	Key       string            `json:"key"`
	Paths     []string          `json:"paths"`
	Untracked bool              `json:"untracked"`
	Location  string            `json:"location"`
	URL       string            `json:"url"`
	Headers   map[string]string `json:"headers"`
	MaxSize   int64             `json:"max_size"`
	Format    string            `json:"format"`
	Level     string            `json:"level"`
}

// writers make archives, by the name of their format.
var writers = map[string]func(ctx context.Context, w io.Writer, dir string, names []string, o pack.Options) (*pack.Summary, error){
	"": pack.Zip, "zip": pack.Zip, "zipzstd": pack.ZipZstd, "tarzstd": pack.TarZstd,
}

// Save is builtin://cache/save.
func Save(ctx context.Context, call *program.Call) error {
	var in saveInputs
	if err := call.Decode(&in); err != nil {
		return err
	}
	key, err := cachekey.Sanitize(in.Key)
	if err == nil && key == "" {
		err = cachekey.ErrEmpty
	}
	if err != nil {
		return fmt.Errorf("the cache key %q cannot be used: %w", in.Key, err)
	}
	level, err := pack.ParseLevel(in.Level)
	if err != nil {
		return err
	}
	if writers[in.Format] == nil {
		return fmt.Errorf("the format %q is not known; known are zip, zipzstd and tarzstd", in.Format)
	}
	to, err := saveTo(call, in)
	if err != nil {
		return err
	}
	var size int64
	if to == nil {
		fmt.Fprintln(call.Stdout, "no location and no address is given; the cache is not kept")
	} else {
		size, err = save(ctx, call, in, to, key, level)
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		selection.Warn(call, "the cache %s is not kept: %v", key, err)
	}
	if err := call.Output("saved", value.OfBool(size > 0)); err != nil {
		return err
	}
	return call.Output("bytes", value.OfInt(size))
}

// saveTo returns the store that the inputs name; nil when they name none.
func saveTo(call *program.Call, in saveInputs) (store, error) {
	switch {
	case in.URL != "":
		headers := http.Header{}
		for name, v := range in.Headers {
			headers.Set(name, v)
		}
		return newAddress(call, in.URL, headers)
	case in.Location != "":
		return open(call, in.Location)
	}
	return nil, nil
}

// save keeps the cache, and returns the size of its archive; 0 when there was nothing to do.
func save(ctx context.Context, call *program.Call, in saveInputs, to store, key string, level pack.Level) (int64, error) {
	fmt.Fprintf(call.Stdout, "Creating cache %s...\n", key)
	without := []string{}
	if in.Location != "" && !bucket.Is(in.Location) {
		without = append(without, in.Location)
	}
	entries, err := selection.Find(ctx, call, selection.Request{Paths: in.Paths, Untracked: in.Untracked, Without: without})
	if err != nil {
		return 0, err
	}
	if len(entries) == 0 {
		selection.Warn(call, "there are no files for the cache %s; it is not kept", key)
		return 0, nil
	}
	mark, newest := markOf(call.WorkDir, in.Format, entries)
	current, err := to.current(ctx, key, mark, newest)
	if err != nil { // then it is kept once more
		selection.Warn(call, "it is not known whether the cache has changed: %v", err)
	}
	if current {
		fmt.Fprintln(call.Stdout, "Archive is up to date!")
		return 0, nil
	}
	a, err := write(ctx, call, to, key, in.Format, selection.Names(entries), level)
	if err != nil {
		return 0, err
	}
	if in.MaxSize > 0 && a.size > in.MaxSize {
		os.Remove(a.path)
		return 0, fmt.Errorf("its archive has %d bytes, and the store takes at most %d", a.size, in.MaxSize)
	}
	a.mark = mark
	if err := to.put(ctx, key, *a); err != nil {
		os.Remove(a.path)
		return 0, err
	}
	fmt.Fprintf(call.Stdout, "Created cache: %s, %d bytes\n", selection.Count(a.entries, "entry", "entries"), a.size)
	return a.size, nil
}

// write makes the archive.
func write(ctx context.Context, call *program.Call, to store, key, format string, names []string, level pack.Level) (*archive, error) {
	f, err := to.create(key)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	buffered := bufio.NewWriterSize(io.MultiWriter(f, sum), 1<<18)
	summary, err := writers[format](ctx, buffered, call.WorkDir, names, pack.Options{Level: level, Readable: true})
	err = errors.Join(err, buffered.Flush())
	var size int64
	if info, statErr := f.Stat(); statErr == nil {
		size = info.Size()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		warn(call, summary.Warnings)
		if summary.Entries == 0 {
			err = errors.New("nothing of it can be packed")
		}
	}
	if err != nil {
		os.Remove(f.Name())
		return nil, err
	}
	return &archive{path: f.Name(), entries: summary.Entries, size: size, sha256: hex.EncodeToString(sum.Sum(nil))}, nil
}

// warn names what is not in an archive. Of what cannot be read, which may be much, it names the first.
func warn(call *program.Call, all []pack.Warning) {
	var unreadable []pack.Warning
	for _, w := range all {
		if w.Reason == pack.Unreadable {
			unreadable = append(unreadable, w)
			continue
		}
		selection.Warn(call, "%s", w)
	}
	switch more := len(unreadable) - 1; more {
	case -1:
	case 0:
		selection.Warn(call, "%s", unreadable[0])
	default:
		selection.Warn(call, "%s; the same holds for %d more", unreadable[0], more)
	}
}

// kept is a time as an archive keeps it: in whole seconds, which tar rounds and zip cuts off.
func kept(t time.Time, format string) int64 {
	if format == "tarzstd" {
		t = t.Round(time.Second)
	}
	return t.Unix()
}

// markOf returns what changes with the files, and the time of the newest of them. Times count in seconds, as archives keep them, and not
// for folders, which change with every file that comes and goes in them.
func markOf(dir, format string, entries []glob.Entry) (mark string, newest time.Time) {
	sum := sha256.New()
	fmt.Fprintf(sum, "rung cache 1 %s\n", format)
	for _, e := range entries {
		mode := e.Info.Mode()
		fmt.Fprintf(sum, "%q %s %o", e.Path, mode.Type(), mode.Perm())
		switch mode.Type() {
		case 0:
			fmt.Fprintf(sum, " %d %d", e.Info.Size(), kept(e.Info.ModTime(), format))
		case fs.ModeSymlink:
			target, _ := os.Readlink(filepath.Join(dir, filepath.FromSlash(e.Path))) // a link that has gone is none
			fmt.Fprintf(sum, " %q", target)
		}
		sum.Write([]byte{'\n'})
		if !mode.IsDir() && e.Info.ModTime().After(newest) {
			newest = e.Info.ModTime()
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), newest
}
