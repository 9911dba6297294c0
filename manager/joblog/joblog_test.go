package joblog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/gitlab/gitlabtest"
	"github.com/rungci/rung/manager/joblog"
)

// world is a job that GitLab handed out, and its log on this side.
type world struct {
	t      *testing.T
	server *gitlabtest.Server
	api    *gitlab.Client
	job    *gitlabtest.Job
	log    *joblog.File
	ranges chan string // Content-Range of each part that arrived
}

func newWorld(t *testing.T, o gitlabtest.Options) *world {
	t.Helper()
	w := &world{t: t, server: gitlabtest.New(o), ranges: make(chan string, 1000)}
	w.server.Break(func(_ http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		if r.Method == http.MethodPatch {
			w.ranges <- r.Header.Get("Content-Range")
		}
		return false
	})
	server := httptest.NewServer(w.server)
	t.Cleanup(server.Close)
	var err error
	w.api, err = gitlab.New(gitlab.Options{
		URL: server.URL, Info: gitlab.Info{Features: gitlab.Features{Refspecs: true, TwoPhaseJobCommit: true, CancelGracefully: true}},
		Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.job = w.server.Enqueue(gitlab.Job{})
	runner := gitlab.Runner{Token: w.server.NewRunner(), SystemID: "s_0123456789ab"}
	if _, err := w.api.RequestJob(t.Context(), gitlab.Ask{Runner: runner}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.api.UpdateJob(t.Context(), w.job.Ref(), gitlab.Update{State: gitlab.Running}); err != nil {
		t.Fatal(err)
	}
	w.log, err = joblog.Open(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.log.Close() })
	return w
}

func (w *world) append(text string) {
	w.t.Helper()
	if err := w.log.Append([]byte(text)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) send(o joblog.SenderOptions) *joblog.Sender {
	if o.First == 0 {
		o.First = time.Hour
	}
	if o.Backoff == 0 {
		o.Backoff = time.Millisecond
	}
	return joblog.Send(w.t.Context(), w.api, w.job.Ref(), w.log, o)
}

// finished holds what GitLab has against the log, and the protocol.
func (w *world) finished(state gitlab.State) gitlabtest.Result {
	w.t.Helper()
	got := w.job.Result()
	if got.State != state {
		w.t.Errorf("the job is %s", got.State)
	}
	if said := w.server.Violations(); len(said) > 0 {
		w.t.Error(said)
	}
	return got
}

func (w *world) sentRanges() string {
	var all []string
	for len(w.ranges) > 0 {
		all = append(all, <-w.ranges)
	}
	return strings.Join(all, " ")
}

// TestAWriteThatFailsIsReported is case 34. There is no buffer that could be flushed later: the write itself reports it, and nothing of it counts.
func TestAWriteThatFailsIsReported(t *testing.T) {
	t.Parallel()
	f := joblog.InMemory() // which takes 64 KiB
	whole := strings.Repeat("a", 64<<10)
	for _, text := range []string{whole[1:], "bc", "b"} {
		before := f.Size()
		err := f.Append([]byte(text))
		switch {
		case text == "bc" && (err == nil || f.Size() != before):
			t.Errorf("a write for which there is no room: %v, %d bytes after %d", err, f.Size(), before)
		case text != "bc" && err != nil:
			t.Error(err)
		}
	}
	sum, err := f.Checksum()
	if want := fmt.Sprintf("crc32:%08x", crc32.ChecksumIEEE([]byte(whole[1:]+"b"))); err != nil || sum != want {
		t.Errorf("%s, %v; want %s", sum, err, want)
	}
}

// TestParts is case 35 of the runner API's.
func TestParts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gitlabtest.Options{})
	s := w.send(joblog.SenderOptions{Part: 5})
	w.append("0123456789abc")
	if err := s.Finish(t.Context(), gitlab.Update{State: gitlab.Failed, FailureReason: "script_failure", ExitCode: 3}); err != nil {
		t.Fatal(err)
	}
	if got := w.sentRanges(); got != "0-4 5-9 10-12" {
		t.Error(got)
	}
	if got := w.finished(gitlab.Failed); got.Log != "0123456789abc" || got.ExitCode != 3 || got.FailureReason != "script_failure" {
		t.Error(got)
	}
}

func TestTheLastWordsOfALogFollowItsFile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gitlabtest.Options{})
	s := w.send(joblog.SenderOptions{Part: 5})
	w.append("on disk, ")
	w.log.Last([]byte("in memory,"))
	w.append(" and more")
	if err := w.log.Append(make([]byte, 64<<10)); err == nil {
		t.Error("memory is not bounded")
	}
	if err := s.Finish(t.Context(), gitlab.Update{State: gitlab.Failed, FailureReason: "runner_system_failure"}); err != nil {
		t.Fatal(err)
	}
	if got := w.finished(gitlab.Failed); got.Log != "on disk, in memory, and more" {
		t.Error(got)
	}
}

// TestTheServerHasItsOwnMind is case 36: an update is answered 202 twice, then 412, and everything is sent again.
func TestTheServerHasItsOwnMind(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gitlabtest.Options{Migrations: 1})
	w.server.Fail(1, "PUT /jobs/{id}", http.StatusPreconditionFailed)
	s := w.send(joblog.SenderOptions{})
	w.append("all of it")
	if err := s.Finish(t.Context(), gitlab.Update{State: gitlab.Success}); err != nil {
		t.Fatal(err)
	}
	if got := w.sentRanges(); got != "0-8 0-8" {
		t.Error(got)
	}
	if got := w.finished(gitlab.Success); got.Log != "all of it" {
		t.Error(got)
	}
}

func part(text string) *io.SectionReader {
	return io.NewSectionReader(strings.NewReader(text), 0, int64(len(text)))
}

// TestOffsets is case 37: GitLab has a part already, such as after a restart here.
func TestOffsets(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gitlabtest.Options{})
	if _, _, err := w.api.PatchTrace(t.Context(), w.job.Ref(), 0, part("0123456789"), false); err != nil {
		t.Fatal(err)
	}
	w.append("0123456789")
	s := w.send(joblog.SenderOptions{Interval: time.Hour, Backoff: time.Hour}) // gitlab-runner sleeps three seconds here
	w.append("rest")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Finish(ctx, gitlab.Update{State: gitlab.Success}); err != nil {
		t.Fatal(err)
	}
	if got := w.sentRanges(); got != "0-9 0-13 10-13" {
		t.Error(got)
	}
	if got := w.finished(gitlab.Success); got.Log != "0123456789rest" {
		t.Error(got)
	}
}

// TestIntervals is case 38.
func TestIntervals(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{"-1": 0, "0": 0, "x": 0, "": 0, "10": 10 * time.Second, "100000": gitlab.MaxInterval} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-GitLab-Trace-Update-Interval", header)
			w.WriteHeader(http.StatusAccepted)
		}))
		api, err := gitlab.New(gitlab.Options{URL: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		if _, r, err := api.PatchTrace(t.Context(), gitlab.Ref{ID: 1}, 0, part("x"), false); err != nil || r.Interval != want {
			t.Errorf("%q: %v, %v", header, r, err)
		}
		server.Close()
	}
}

// TestCancellation is case 39.
func TestCancellation(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		act  func(*gitlabtest.Job)
		gone bool
	}{
		"gracefully": {(*gitlabtest.Job).Cancel, false},
		"at once":    {(*gitlabtest.Job).Abort, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, gitlabtest.Options{})
			cancelled, gone := make(chan struct{}), make(chan error, 1)
			s := w.send(joblog.SenderOptions{
				First: time.Millisecond, Touch: 10 * time.Millisecond,
				Cancelled: func() { close(cancelled) }, Gone: func(err error) { gone <- err },
			})
			w.append("begin\n")
			if err := w.job.WaitLog(t.Context(), "begin"); err != nil {
				t.Fatal(err)
			}
			c.act(w.job)
			w.append("more\n")
			if c.gone {
				if err := <-gone; !errors.Is(err, gitlab.ErrJobGone) {
					t.Error(err)
				}
				if err := s.Finish(t.Context(), gitlab.Update{State: gitlab.Success}); !errors.Is(err, gitlab.ErrJobGone) {
					t.Error(err)
				}
				w.finished(gitlab.Canceled)
				return
			}
			<-cancelled
			w.append("after\n")
			if err := s.Finish(t.Context(), gitlab.Update{State: gitlab.Failed, FailureReason: "job_canceled"}); err != nil {
				t.Error(err)
			}
			if got := w.finished(gitlab.Canceled); got.Log != "begin\nmore\nafter\n" {
				t.Errorf("%q", got.Log)
			}
		})
	}
}

// A job that GitLab still has as pending is acknowledged again, and has not been given up.
func TestAJobThatIsStillPendingIsAcknowledgedAgain(t *testing.T) {
	t.Parallel()
	for _, endpoint := range []string{"PATCH /jobs/{id}/trace", "PUT /jobs/{id}"} {
		w := newWorld(t, gitlabtest.Options{})
		s := w.send(joblog.SenderOptions{})
		w.server.Fail(1, endpoint, http.StatusForbidden, "Job-Status", "pending")
		w.append("all of it")
		if err := s.Finish(t.Context(), gitlab.Update{State: gitlab.Success}); err != nil {
			t.Fatal(err)
		}
		got := w.finished(gitlab.Success)
		if want := []gitlab.State{gitlab.Running, gitlab.Running, gitlab.Success}; !slices.Equal(got.Updates, want) || got.Log != "all of it" {
			t.Errorf("%s: %v %q", endpoint, got.Updates, got.Log)
		}
	}
}

// TestASilentJobIsReported is case 40: a sign of life after silence, and failures in between lose nothing.
func TestASilentJobIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gitlabtest.Options{})
	var notes atomic.Int32
	w.server.Fail(7, "PATCH /jobs/{id}/trace", http.StatusBadGateway)
	s := w.send(joblog.SenderOptions{First: time.Millisecond, Interval: time.Millisecond, Touch: 20 * time.Millisecond, Note: func(error) { notes.Add(1) }})
	w.append("one")
	if err := w.job.WaitLog(t.Context(), "one"); err != nil {
		t.Fatal(err)
	}
	for len(w.job.Result().Updates) < 3 {
		time.Sleep(time.Millisecond)
	}
	w.server.Fail(7, "PUT /jobs/{id}", http.StatusInternalServerError)
	if err := s.Finish(t.Context(), gitlab.Update{State: gitlab.Success}); err != nil {
		t.Fatal(err)
	}
	if got := w.finished(gitlab.Success); got.Log != "one" || notes.Load() == 0 {
		t.Error(got, notes.Load())
	}
}

// TestGitLabAway gives up the final update only after its attempts.
func TestGitLabAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gitlabtest.Options{})
	repair := w.server.Break(func(http.ResponseWriter, *http.Request, http.Handler) bool { panic(http.ErrAbortHandler) })
	s := w.send(joblog.SenderOptions{Attempts: 3})
	w.append("x")
	err := s.Finish(t.Context(), gitlab.Update{State: gitlab.Success})
	var unanswered *gitlab.NetworkError
	if !errors.As(err, &unanswered) || !strings.Contains(err.Error(), "gave up after 3 attempts") {
		t.Error(err)
	}
	repair()
	if err := s.Finish(t.Context(), gitlab.Update{State: gitlab.Success}); err != nil {
		t.Error(err)
	}
	w.finished(gitlab.Success)
}

// TestALiarIsNotFollowed is case 33: it holds that a server which refuses every offset ends no better than one that is away.
func TestALiarIsNotFollowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gitlabtest.Options{})
	for _, have := range []string{"0", "5", "3"} {
		repair := w.server.Break(func(rw http.ResponseWriter, r *http.Request, _ http.Handler) bool {
			if r.Method == http.MethodPatch {
				rw.Header().Set("Range", "0-"+have)
				rw.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			}
			return r.Method == http.MethodPatch
		})
		w.append("0123456789")
		s := w.send(joblog.SenderOptions{Attempts: 2})
		if err := s.Finish(t.Context(), gitlab.Update{State: gitlab.Success}); err == nil {
			t.Errorf("%s: no error", have)
		}
		repair()
	}
}

func TestAJobWhoseLogLostItsEndIsReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gitlabtest.Options{})
	whole := strings.Repeat("0123456789", 100)
	if _, _, err := w.api.PatchTrace(t.Context(), w.job.Ref(), 0, part(whole), false); err != nil {
		t.Fatal(err)
	}
	w.append(whole[:500]) // what the disk has after a loss of power
	var notes []string
	s := w.send(joblog.SenderOptions{Attempts: 2, Note: func(err error) { notes = append(notes, err.Error()) }})
	if err := s.Finish(t.Context(), gitlab.Update{State: gitlab.Failed, FailureReason: "runner_system_failure"}); err != nil {
		t.Fatal(err)
	}
	if got := w.finished(gitlab.Failed); got.Log != whole || got.FailureReason != "runner_system_failure" {
		t.Error(got)
	}
	if said := strings.Join(notes, "\n"); strings.Count(said, "GitLab has 1000 bytes, and 500 are here") != 1 {
		t.Error(said)
	}
}

// TestEveryByteOnce sends random parts through a server that fails at random, with a restart on this side in the middle.
func TestEveryByteOnce(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			w := newWorld(t, gitlabtest.Options{})
			repair := w.server.Break(func(rw http.ResponseWriter, r *http.Request, works http.Handler) bool {
				switch n := rand.N(10); {
				case r.Method == http.MethodPatch && n == 0:
					panic(http.ErrAbortHandler)
				case r.Method == http.MethodPatch && n == 1: // arrives, but its answer does not
					works.ServeHTTP(httptest.NewRecorder(), r)
					panic(http.ErrAbortHandler)
				case n == 2:
					rw.WriteHeader(http.StatusServiceUnavailable)
					return true
				}
				return false
			})
			o := joblog.SenderOptions{First: time.Millisecond, Interval: time.Millisecond, Part: 1 + random.Int64N(100), Attempts: 100}
			s := w.send(o)
			var all bytes.Buffer
			for i := range 40 {
				p := bytes.Repeat([]byte{byte('a' + i%26)}, random.IntN(60))
				all.Write(p)
				w.append(string(p))
				if i == 20 {
					s.Stop()
					s = w.send(o)
				}
				time.Sleep(time.Duration(random.IntN(300)) * time.Microsecond)
			}
			if err := s.Finish(t.Context(), gitlab.Update{State: gitlab.Success}); err != nil {
				t.Fatal(err)
			}
			repair()
			if got := w.finished(gitlab.Success); got.Log != all.String() {
				t.Errorf("GitLab has %d bytes, not %d", len(got.Log), all.Len())
			}
		})
	}
}

func TestAFileIsGoneOnWith(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	f, err := joblog.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Append([]byte("before ")); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f, err = joblog.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Append([]byte("and after")); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		sum, err := f.Checksum()
		if want := fmt.Sprintf("crc32:%08x", crc32.ChecksumIEEE([]byte("before and after"))); err != nil || sum != want || f.Size() != 16 {
			t.Error(sum, f.Size(), err)
		}
		if err := f.Append(nil); err != nil {
			t.Error(err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Error(info.Mode(), err)
	}
	if err := os.Truncate(path, 3); err != nil {
		t.Fatal(err)
	}
	g, err := joblog.Open(path)
	if err != nil || g.Size() != 3 {
		t.Error(g, err)
	}
	if _, err := joblog.Open(t.TempDir()); err == nil {
		t.Error("a folder is a log")
	}
}

// A log whose beginning only GitLab has, and which another host has brought to its end. This one may have had the job before.
func TestTheRestOfALogIsSentFromAnotherHost(t *testing.T) {
	t.Parallel()
	for _, had := range []string{"", "012"} {
		w := newWorld(t, gitlabtest.Options{})
		first := w.send(joblog.SenderOptions{First: time.Millisecond, Interval: time.Millisecond})
		w.append("0123456789")
		if err := w.job.WaitLog(t.Context(), "9"); err != nil {
			t.Fatal(err)
		}
		first.Stop()
		w.append("abc")
		rest, err := first.Rest()
		if err != nil || rest.Size() != 13 {
			t.Fatalf("%+v, %v", rest, err)
		}
		if w.log, err = joblog.Open(filepath.Join(t.TempDir(), "log")); err != nil {
			t.Fatal(err)
		}
		w.append(had)
		if err := w.log.Bring(*rest); err != nil {
			t.Fatal(err)
		}
		w.sentRanges()
		if err := w.send(joblog.SenderOptions{}).Finish(t.Context(), gitlab.Update{State: gitlab.Success}); err != nil {
			t.Fatal(err)
		}
		if got := w.finished(gitlab.Success); got.Log != "0123456789abc" {
			t.Errorf("%q, sent as %s", got.Log, w.sentRanges())
		}
		if err := w.log.Bring(*rest); err == nil {
			t.Error("a log that is there is replaced")
		}
	}
}

func TestALogThatIsShownAgainAfterItsHostHadTheJobBeforeIsNoLoss(t *testing.T) {
	t.Parallel()
	w := newWorld(t, gitlabtest.Options{})
	w.append("0123456789")
	first := w.send(joblog.SenderOptions{First: time.Millisecond, Interval: time.Millisecond})
	if err := w.job.WaitLog(t.Context(), "9"); err != nil {
		t.Fatal(err)
	}
	first.Stop()
	var err error
	if w.log, err = joblog.Open(filepath.Join(t.TempDir(), "log")); err != nil {
		t.Fatal(err)
	}
	w.append("012")
	w.sentRanges()
	again := w.send(joblog.SenderOptions{First: time.Millisecond, Interval: time.Millisecond, Note: func(err error) { t.Error(err) }})
	for range 2 { // the answer to the first one has been read
		<-w.ranges
	}
	w.append("3456789abc")
	if err := again.Finish(t.Context(), gitlab.Update{State: gitlab.Success}); err != nil {
		t.Fatal(err)
	}
	if got := w.finished(gitlab.Success); got.Log != "0123456789abc" {
		t.Errorf("%q, sent as %s", got.Log, w.sentRanges())
	}
}
