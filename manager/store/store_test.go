package store_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/internal/sharedstate"
	"github.com/rungci/rung/internal/sharedstate/objectstest"
	"github.com/rungci/rung/manager/store"
)

func open(t *testing.T, dir string) *store.Store {
	t.Helper()
	s, err := store.Open(dir, []byte("a secret"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func runner(t *testing.T, s *store.Store, token string) *store.Runner {
	t.Helper()
	r, err := s.Runner(token)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func jobs(t *testing.T, r *store.Runner) map[int64]string {
	t.Helper()
	all, err := r.Jobs()
	if err != nil {
		t.Error(err)
	}
	out := map[int64]string{}
	for id, data := range all {
		out[id] = string(data)
	}
	return out
}

func do(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestRecordsOutliveTheirManager(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	one, two := runner(t, s, "glrt-one"), runner(t, s, "glrt-two")
	do(t, one.Put(1, []byte("first")), one.Put(2, []byte("second")), one.Put(1, []byte("first, later")), two.Put(1, []byte("another's")), one.Delete(2), one.Delete(2))
	s.Close()

	s = open(t, dir)
	defer s.Close()
	if diff := cmp.Diff(map[int64]string{1: "first, later"}, jobs(t, runner(t, s, "glrt-one"))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[int64]string{1: "another's"}, jobs(t, runner(t, s, "glrt-two"))); diff != "" {
		t.Error(diff)
	}
}

func TestTheFolderHoldsNoSecret(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	do(t, runner(t, s, "glrt-token-of-the-runner").Put(1, []byte("hunter2 is the secret of a job")))
	s.Close()
	var data []byte
	do(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			text, readErr := os.ReadFile(path)
			data, err = append(append(data, path...), text...), readErr
		}
		return err
	}))
	for _, secret := range []string{"hunter2", "glrt-token-of-the-runner"} {
		if bytes.Contains(data, []byte(secret)) {
			t.Errorf("the folder holds %q", secret)
		}
	}
}

// TestATokenIsRotated is about a process that ends at each point: with the old token in the configuration, and with the new one.
func TestATokenIsRotated(t *testing.T) {
	expires := time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		rotate     bool
		configured string
		unfinished string // what the old token still leads to
		old        int    // jobs that the old token reads in the end
	}{
		"before it is known":       {false, "old", "", 1},
		"before the configuration": {true, "old", "new", 1},
		"after it":                 {true, "new", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, dir)
			r := runner(t, s, "old")
			do(t, r.Put(1, []byte("a job")))
			if c.rotate {
				do(t, r.Rotate(store.Next{Token: "new", Expires: expires}))
			}
			do(t, r.Put(2, []byte("a job that ends later")))
			s.Close()
			s = open(t, dir) // the next process
			defer s.Close()
			again := runner(t, s, c.configured)
			if again.ID() != r.ID() || len(jobs(t, again)) != 2 {
				t.Errorf("%d jobs of the process before are found", len(jobs(t, again)))
			}
			do(t, again.Settle())
			next, err := again.Unfinished()
			do(t, err)
			switch {
			case c.unfinished == "" && next != nil:
				t.Error("a rotation is unfinished")
			case c.unfinished != "" && (next == nil || next.Token != c.unfinished || !next.Expires.Equal(expires)):
				t.Errorf("unfinished is %+v", next)
			}
			if next != nil { // and finish it
				finished := runner(t, s, next.Token)
				if next, err := finished.Unfinished(); next == nil || err != nil || len(jobs(t, runner(t, s, "old"))) != 2 {
					t.Error("it is finished before the configuration has the token:", err)
				}
				do(t, finished.Settle())
				if len(jobs(t, finished)) != 2 || finished.ID() != r.ID() {
					t.Error("the new token does not read the jobs")
				}
				if len(jobs(t, runner(t, s, "old"))) != 0 {
					t.Error("the old token still reads the jobs")
				}
				return
			}
			if c.old == 0 && len(jobs(t, runner(t, s, "old"))) != 0 {
				t.Error("the old token still reads the jobs")
			}
		})
	}
}

func TestATokenIsRotatedBesideTheManager(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer s.Close()
	r := runner(t, s, "old")
	do(t, r.Put(1, []byte("a job")))
	do(t, store.Beside(dir, "old", store.Next{Token: "new"}), store.Beside(dir, "new", store.Next{Token: "newer"}))
	do(t, r.Put(2, []byte("a job that begins later")))
	if again := runner(t, s, "newer"); again.ID() != r.ID() || len(jobs(t, again)) != 2 {
		t.Errorf("the last token reads %d jobs", len(jobs(t, again)))
	}
	do(t, store.Beside(dir, "nobody's", store.Next{Token: "x"}), store.Beside(filepath.Join(dir, "nowhere"), "old", store.Next{Token: "x"}))
	if _, err := os.Stat(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("a folder was made")
	}
}

func TestADamagedRotationLosesNoJob(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer s.Close()
	r := runner(t, s, "old")
	do(t, r.Put(1, []byte("a job")), r.Rotate(store.Next{Token: "new"}))
	files, err := filepath.Glob(filepath.Join(dir, "runners", "*", "next"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	do(t, os.WriteFile(files[0], []byte("nothing"), 0o600))
	if len(jobs(t, runner(t, s, "new"))) != 1 || len(jobs(t, runner(t, s, "old"))) != 1 {
		t.Error("the job is lost")
	}
}

func TestOneManagerAtATime(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer s.Close()
	if _, err := store.Open(dir, nil); !errors.Is(err, store.ErrInUse) {
		t.Error(err)
	}
}

func TestADamagedRecordIsOneJob(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	r := runner(t, s, "token")
	do(t, r.Put(1, []byte("a job")), r.Put(2, []byte("another")), r.Put(3, []byte("a third")))
	files, err := filepath.Glob(filepath.Join(dir, "runners", "*", "[12]"))
	if err != nil || len(files) != 2 {
		t.Fatal(files, err)
	}
	do(t, os.WriteFile(files[0], []byte("not a record"), 0o600), os.Truncate(files[1], 0))
	s.Close()
	s = open(t, dir)
	defer s.Close()
	r = runner(t, s, "token")
	all, err := r.Jobs()
	if !errors.Is(err, store.ErrDamaged) || len(all) != 1 || string(all[3]) != "a third" {
		t.Errorf("%v, %v", all, err)
	}
	if all, err := r.Jobs(); err != nil || len(all) != 1 {
		t.Errorf("the damaged ones are still there: %v, %v", all, err)
	}
}

func TestARecordMeansNothingUnderAnotherNumber(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	defer s.Close()
	r := runner(t, s, "token")
	do(t, r.Put(1, []byte("a job")))
	files, err := filepath.Glob(filepath.Join(dir, "runners", "*", "1"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	do(t, os.Rename(files[0], filepath.Join(filepath.Dir(files[0]), "7")))
	if all, err := r.Jobs(); !errors.Is(err, store.ErrDamaged) || len(all) != 0 {
		t.Errorf("%v, %v", all, err)
	}
}

func TestARunnerIsBegunOnce(t *testing.T) {
	s := open(t, t.TempDir())
	defer s.Close()
	ids := make(chan string)
	for range 20 {
		go func() {
			r, err := s.Runner("token")
			if err != nil {
				t.Error(err)
				ids <- ""
				return
			}
			ids <- r.ID()
		}()
	}
	known := map[string]bool{}
	for range 20 {
		known[<-ids] = true
	}
	if len(known) != 1 {
		t.Errorf("one token has %d runners", len(known))
	}
}

func TestWhatIsKeptUnderANameIsSealedAndIsNoJob(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	r := runner(t, s, "token")
	if text, err := r.Kept("groups"); text != nil || err != nil {
		t.Errorf("there is %q, %v", text, err)
	}
	do(t, r.Put(1, []byte("a job")), r.Keep("groups", []byte("first")), r.Keep("groups", []byte("hunter2")), r.Keep("other", []byte("another")))
	s.Close()
	r = runner(t, open(t, dir), "token")
	if got := jobs(t, r); len(got) != 1 {
		t.Errorf("the jobs are %v", got)
	}
	if text, err := r.Kept("groups"); string(text) != "hunter2" || err != nil {
		t.Errorf("there is %q, %v", text, err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*", "kept-*"))
	if err != nil || len(files) != 2 {
		t.Fatalf("the files are %v, %v", files, err)
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err != nil || bytes.Contains(text, []byte("hunter2")) {
			t.Errorf("%s is readable: %q, %v", file, text, err)
		}
	}
	do(t, os.Rename(files[0], files[1])) // one in place of another
	if text, err := r.Kept("other"); !errors.Is(err, store.ErrDamaged) {
		t.Errorf("there is %q, %v", text, err)
	}
}

func TestTheJobsOfARunnerWhoseTokenIsNotKnownAreFoundByTheSecret(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	gone, stays := runner(t, s, "gone"), runner(t, s, "stays")
	do(t, gone.Put(1, []byte("a job")), gone.KeepSettings([]byte("what it was")), stays.Put(2, []byte("another")), runner(t, s, "idle").KeepSettings([]byte("no job")))
	s.Close()
	known := func(id string) bool { return id == stays.ID() }

	s = open(t, dir)
	none := func(string) bool { return false }
	left, err := s.Left(known, none)
	if err != nil || len(left) != 1 || left[0].ID() != gone.ID() || jobs(t, left[0])[1] != "a job" {
		t.Fatalf("left are %v, %v", left, err)
	}
	if settings, err := left[0].Settings(); err != nil || string(settings) != "what it was" {
		t.Errorf("it was %q, %v", settings, err)
	}
	do(t, left[0].Delete(1))
	if left, err := s.Left(known, none); err != nil || len(left) != 0 {
		t.Errorf("left without jobs are %v, %v", left, err)
	}
	do(t, gone.Put(1, []byte("a job")))
	s.Close()
	for name, secret := range map[string][]byte{"no secret": nil, "another secret": []byte("another")} {
		s, err := store.Open(dir, secret)
		if err != nil {
			t.Fatal(err)
		}
		if left, err := s.Left(known, none); err == nil || len(left) != 0 || !strings.Contains(err.Error(), "1 records of jobs in") {
			t.Errorf("with %s, left are %v, %v", name, left, err)
		}
		s.Close()
	}
}

// Records in a state that hosts share are those of files, and say nothing without the key.
func TestASharedStoreHasTheRecordsOnEveryHost(t *testing.T) {
	objects := &objectstest.Memory{}
	host := func(name string) *store.Store {
		state, err := sharedstate.Acquire(t.Context(), sharedstate.Options{Objects: objects, Key: []byte("a key of sixteen bytes, and more"), Holder: name, Name: name})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = state.Close() })
		return store.Shared(state, []byte("a secret"))
	}
	s := host("one")
	one, two := runner(t, s, "glrt-one"), runner(t, s, "glrt-two")
	do(t, one.Put(1, []byte("first")), one.Put(2, []byte("second")), one.Put(1, []byte("later")), two.Put(7, []byte("another's")), one.Delete(2), one.Delete(2),
		one.KeepSettings([]byte("what one is")), two.KeepSettings([]byte("what two is")), one.Rotate(store.Next{Token: "glrt-next"}))

	s = host("one") // takes it over at once
	again := runner(t, s, "glrt-next")
	if diff := cmp.Diff(map[int64]string{1: "later"}, jobs(t, again)); diff != "" || again.ID() != one.ID() {
		t.Error(diff)
	}
	do(t, again.Settle())
	if next, err := again.Unfinished(); next != nil || err != nil {
		t.Errorf("%v, %v", next, err)
	}
	left, err := s.Left(func(id string) bool { return id == one.ID() }, func(string) bool { return false })
	if err != nil || len(left) != 1 || left[0].ID() != two.ID() {
		t.Fatalf("%v, %v", left, err)
	}
	if settings, err := left[0].Settings(); err != nil || string(settings) != "what two is" {
		t.Errorf("%q, %v", settings, err)
	}
	if diff := cmp.Diff(map[int64]string{7: "another's"}, jobs(t, left[0])); diff != "" {
		t.Error(diff)
	}
	if err := one.Put(1, nil); !errors.Is(err, sharedstate.ErrFenced) {
		t.Errorf("who was before it can write: %v", err)
	}
}
