package process

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAPipeThatFillsABufferBecomesWide(t *testing.T) {
	t.Parallel()
	p, childEnd, err := newPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	defer childEnd.Close()
	text := bytes.Repeat([]byte("0123456789abcdef"), bufferSize/8) // two buffers
	if _, err := childEnd.Write(text); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, bufferSize)
	if _, err := unix.FcntlInt(uintptr(p.fd), unix.F_SETPIPE_SZ, wideSize); err != nil {
		t.Skipf("the kernel grants this user no pipe of %d bytes: %v", wideSize, err)
	}
	n, _ := p.readNow(buf)
	got := append([]byte(nil), buf[:n]...)
	wide := wider(buf, n, p)
	if len(wide) != wideSize {
		t.Errorf("after a full read the buffer has %d bytes, not %d", len(wide), wideSize)
	}
	if size, err := unix.FcntlInt(uintptr(p.fd), unix.F_GETPIPE_SZ, 0); err != nil || size != wideSize {
		t.Errorf("the pipe holds %d bytes, not %d (%v)", size, wideSize, err)
	}
	n, _ = p.readNow(wide)
	if got = append(got, wide[:n]...); !bytes.Equal(got, text) {
		t.Errorf("%d bytes were read, and %d written", len(got), len(text))
	}
	if again := wider(wide, wideSize, p); &again[0] != &wide[0] {
		t.Error("a wide buffer was replaced")
	}
	if same := wider(buf, bufferSize-1, p); &same[0] != &buf[0] {
		t.Error("a buffer that was not filled was replaced")
	}
}

func TestReadProcReadsAllOfAFile(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1, 1 << 10, 5000} {
		file, want := filepath.Join(t.TempDir(), "stat"), bytes.Repeat([]byte("x"), size)
		if err := os.WriteFile(file, want, 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := readProc(file); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d of %d bytes were read (%v)", len(got), size, err)
		}
	}
	if _, err := readProc("/proc/does/not/exist"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that does not exist: %v", err)
	}
}
