package hosttest

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/rungci/rung/executor/host"
)

// Benchmark measures what levels do often.
func Benchmark(b *testing.B, h host.Host) {
	b.Run("Exec", func(b *testing.B) {
		for b.Loop() {
			if r := run(b, h, &host.Command{Args: []string{"true"}}); r.err != nil {
				b.Fatal(r.err)
			}
		}
	})
	b.Run("output", func(b *testing.B) {
		const size = 100 << 20
		b.SetBytes(size)
		for b.Loop() {
			if r := run(b, h, &host.Command{Args: []string{"head", "-c", "104857600", "/dev/zero"}, Stdout: io.Discard}); r.err != nil {
				b.Fatal(r.err)
			}
		}
	})
	b.Run("Dial and a byte there and back", func(b *testing.B) {
		address := listen(b, "tcp", "127.0.0.1:0", func(conn net.Conn) { _, _ = io.Copy(conn, conn) })
		for b.Loop() {
			conn, err := h.Dial(b.Context(), "tcp", address)
			if err != nil {
				b.Fatal(err)
			}
			_, err = conn.Write([]byte{1})
			if _, readErr := conn.Read(make([]byte, 1)); err != nil || readErr != nil {
				b.Fatal(err, readErr)
			}
			_ = conn.Close()
		}
	})
	b.Run("Stat", func(b *testing.B) {
		if _, err := h.Files().Temp(b.Context()); err != nil { // so that the program for files is there
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := h.Files().Stat(b.Context(), "/"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Put of 26 MB that exists", func(b *testing.B) {
		file := filepath.Join(b.TempDir(), "program")
		if err := os.WriteFile(file, make([]byte, 26_000_000), 0o700); err != nil {
			b.Fatal(err)
		}
		if _, err := h.Put(b.Context(), file); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := h.Put(b.Context(), file); err != nil {
				b.Fatal(err)
			}
		}
	})
}
