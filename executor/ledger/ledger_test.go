package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rungci/rung/executor"
)

const ownerVariable = "RUNG_TEST_LEDGER"

// TestMain lets the tests start a process that has a ledger and is killed.
func TestMain(m *testing.M) {
	folder := os.Getenv(ownerVariable)
	if folder == "" {
		os.Exit(m.Run())
	}
	l, err := Open(folder, "test", Lease{})
	if err == nil {
		err = errors.Join(l.Add("first"), l.Add("gone"), l.Add("second\n\xff"), l.Done("gone"))
	}
	if err != nil {
		os.Stdout.WriteString(err.Error())
		os.Exit(1)
	}
	os.Stdout.WriteString("ready")
	select {} // until it is killed
}

func startOwner(t *testing.T, folder string) *exec.Cmd {
	t.Helper()
	owner := exec.Command(os.Args[0])
	owner.Env = append(os.Environ(), ownerVariable+"="+folder)
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = owner.Process.Kill() })
	said := make([]byte, 100)
	if n, _ := out.Read(said); string(said[:n]) != "ready" {
		t.Fatalf("the owner says %q", said[:n])
	}
	return owner
}

// swept returns the entries that a sweep of the folder finds.
func swept(t *testing.T, folder string) (found []string) {
	t.Helper()
	err := Sweep(folder, "test", func(entry string) error {
		found = append(found, entry)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestASweepFindsWhatAKilledProcessHadMadeLastFirst(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "not", "there", "yet")
	owner := startOwner(t, folder)
	if found := swept(t, folder); found != nil {
		t.Errorf("while the process lives, a sweep finds %q", found)
	}
	_ = owner.Process.Kill()
	_ = owner.Wait()
	if diff := cmp.Diff([]string{"second\n\xff", "first"}, swept(t, folder)); diff != "" {
		t.Errorf("after it was killed, a sweep finds (-want +got):\n%s", diff)
	}
	if found := swept(t, folder); found != nil {
		t.Errorf("a second sweep finds %q", found)
	}
	if left, _ := os.ReadDir(folder); len(left) != 0 {
		t.Errorf("files are left: %v", left)
	}
}

func TestWhatCannotBeRemovedIsKeptForAnotherTime(t *testing.T) {
	folder := t.TempDir()
	l, err := Open(folder, "test", Lease{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Add("a"), l.Add("b"), l.Close(), l.Close()); err != nil {
		t.Fatal(err)
	}
	stuck := errors.New("stuck")
	err = Sweep(folder, "test", func(entry string) error {
		if entry == "a" {
			return stuck
		}
		return nil
	})
	if !errors.Is(err, stuck) {
		t.Errorf("the error is %v", err)
	}
	if found := swept(t, folder); len(found) == 0 || found[len(found)-1] != "a" {
		t.Errorf("the next sweep finds %q", found)
	}
	if err := l.Add("late"); err == nil {
		t.Error("a closed ledger takes an entry")
	}
}

func TestALedgerInWhichNothingIsLeftLeavesNoFile(t *testing.T) {
	folder := t.TempDir()
	l, err := Open(folder, "test", Lease{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Add("x"), l.Done("x"), l.Close()); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(folder); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestASweepLeavesTheFilesOfOthersAlone(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"other-1.ledger", "test-1.txt"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("+\"YQ==\"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if found := swept(t, folder); found != nil {
		t.Errorf("it finds %q", found)
	}
	if found := swept(t, filepath.Join(folder, "missing")); found != nil {
		t.Errorf("in no folder it finds %q", found)
	}
}

func TestADamagedLedgerGivesTheEntriesThatAreWhole(t *testing.T) {
	folder := t.TempDir()
	text := "+\"YQ==\"\n\n+nonsense\n?\"Yg==\"\n+\"Yw==\"\n+\"ZA" // a, rubbish, c, and a line cut short
	if err := os.WriteFile(filepath.Join(folder, "test-1.ledger"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"c", "a"}, swept(t, folder)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// leased is a process with a lease that was killed, and left entries.
func leased(t *testing.T, folder string, keep time.Duration, entries ...string) {
	t.Helper()
	l, err := Open(folder, "test", Lease{Owner: "manager", Keep: keep})
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if err := l.Add(entry); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestALeaseOutlivesItsProcessForItsTime(t *testing.T) {
	folder := t.TempDir()
	leased(t, folder, time.Hour, "a")
	if found := swept(t, folder); found != nil {
		t.Errorf("a sweep within the lease finds %q", found)
	}
	paths, err := ledgers(folder, "test")
	if err != nil || len(paths) != 1 {
		t.Fatal(paths, err)
	}
	text, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.IndexByte(text, '!')
	if err := os.WriteFile(paths[0], append(text[:at], fmt.Sprintf("!%d\n", time.Now().Add(-2*time.Hour).Unix())...), 0o600); err != nil {
		t.Fatal(err)
	}
	if found := swept(t, folder); len(found) != 1 || found[0] != "a" {
		t.Errorf("a sweep after the lease finds %q", found)
	}
}

// owned opens the ledger of another process with the same owner, or not.
func owned(t *testing.T, folder, owner string) *Ledger {
	t.Helper()
	l, err := Open(folder, "test", Lease{Owner: owner, Keep: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestASuccessorTakesOverWhatIsItsOwners(t *testing.T) {
	folder := t.TempDir()
	leased(t, folder, time.Hour, "a", "b")
	heir := owned(t, folder, "manager")
	stranger := owned(t, folder, "another")
	if err := stranger.Adopt("a"); !errors.Is(err, ErrUnknown) {
		t.Errorf("another owner adopts: %v", err)
	}
	if err := stranger.Recover("job-1", "a"); !errors.Is(err, executor.ErrGone) {
		t.Errorf("a level that recovers what it does not own has the error %v", err)
	}
	if err := heir.Adopt("a"); err != nil {
		t.Error(err)
	}
	if err := heir.Adopt("a"); !errors.Is(err, ErrUnknown) {
		t.Errorf("adopted twice: %v", err)
	}
	second := owned(t, folder, "manager")
	if err := second.Adopt("a"); !errors.Is(err, ErrOwned) {
		t.Errorf("taken from a living process: %v", err)
	}
	if err := second.Recover("job-1", "a"); !errors.Is(err, executor.ErrOwned) || !strings.Contains(err.Error(), "job-1") {
		t.Errorf("a level that recovers from a living process has the error %v", err)
	}
	if err := heir.Release("a"); err != nil {
		t.Error(err)
	}
	if err := errors.Join(second.Adopt("a"), second.Adopt("b"), second.Done("a"), second.Done("b")); err != nil {
		t.Error(err)
	}
	if err := errors.Join(heir.Close(), second.Close(), stranger.Close()); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(folder); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

func TestWhatAKilledSuccessorWasTakingOverIsLeftInOneLedger(t *testing.T) {
	folder := t.TempDir()
	leased(t, folder, time.Hour, "a", "b")
	leased(t, folder, time.Hour, "a") // it had written that down when it was killed
	heir := owned(t, folder, "manager")
	if err := heir.Adopt("a"); err != nil {
		t.Fatal(err)
	}
	if err := Expire(folder, "manager"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"b"}, swept(t, folder)); diff != "" {
		t.Errorf("what nobody has adopted (-want +got):\n%s", diff)
	}
}

func TestEntriesAreTakenOverTogetherOrNotAtAll(t *testing.T) {
	folder := t.TempDir()
	leased(t, folder, time.Hour, "a", "b")
	slow := owned(t, folder, "manager")
	if err := slow.Add("c"); err != nil {
		t.Fatal(err)
	}
	heir := owned(t, folder, "manager")
	if err := heir.Adopt("a", "c"); !errors.Is(err, ErrOwned) {
		t.Errorf("while a process lives: %v", err)
	}
	if err := heir.Adopt("a", "d"); !errors.Is(err, ErrUnknown) {
		t.Errorf("one of them is nowhere: %v", err)
	}
	if err := errors.Join(slow.Close(), heir.Adopt("a", "c"), Expire(folder, "manager")); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{"b"}, swept(t, folder)); diff != "" {
		t.Errorf("what nobody has adopted (-want +got):\n%s", diff)
	}
}

func TestALedgerThatEndsWithItsProcessReleasesNothing(t *testing.T) {
	l, err := Open(t.TempDir(), "test", Lease{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Add("a"), l.Close()); err != nil {
		t.Fatal(err)
	}
	if l.Release("a") == nil {
		t.Error("an entry was released")
	}
}

func TestWhatALedgerOnAnotherHostHasIsTakenOver(t *testing.T) {
	folder := t.TempDir()
	l, err := Open(folder, "test", Lease{Owner: "manager", Keep: time.Hour, Elsewhere: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Adopt("/one", "/two"); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	next := owned(t, folder, "manager")
	defer next.Close()
	if err := next.Adopt("/one", "/two"); err != nil {
		t.Errorf("they are not in its ledger: %v", err)
	}
}
