package engine

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
)

// frame is text in a stream, as an engine sends it.
func frame(stream byte, text string) string {
	header := binary.BigEndian.AppendUint32([]byte{stream, 0, 0, 0}, uint32(len(text)))
	return string(header) + text
}

func TestDemultiplex(t *testing.T) {
	long := strings.Repeat("0123456789", copySize)
	for _, c := range []struct{ name, in, out, errs string }{
		{name: "nothing"},
		{"both streams, in order", frame(1, "a") + frame(2, "x") + frame(1, "b") + frame(2, "y"), "ab", "xy"},
		{"what is echoed is output", frame(0, "in"), "in", ""},
		{"a frame without a byte", frame(1, "") + frame(2, "x"), "", "x"},
		{"a frame longer than what is copied at a time", frame(2, long) + frame(1, "end"), "end", long},
	} {
		t.Run(c.name, func(t *testing.T) {
			for how, in := range map[string]io.Reader{"whole": strings.NewReader(c.in), "byte by byte": iotest.OneByteReader(strings.NewReader(c.in))} {
				var out, errs bytes.Buffer
				if err := Demultiplex(&out, &errs, in); err != nil || out.String() != c.out || errs.String() != c.errs {
					t.Errorf("%s: %.50q %.50q %v", how, out.String(), errs.String(), err)
				}
			}
		})
	}
}

func TestAStreamThatIsDamagedIsAnError(t *testing.T) {
	whole := frame(1, "before") + frame(1, "after")
	for cut := range len(whole) {
		if cut == 0 || cut == len(frame(1, "before")) {
			continue // between frames
		}
		if err := Demultiplex(io.Discard, io.Discard, strings.NewReader(whole[:cut])); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut after %d bytes: %v", cut, err)
		}
	}
	for _, text := range []string{"plain text of a terminal", frame(4, "x"), "\x01\x00\x01\x00\x00\x00\x00\x01x"} {
		if err := Demultiplex(io.Discard, io.Discard, strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), "no frames") {
			t.Errorf("%q: %v", text, err)
		}
	}
	var refused *Error
	long := strings.Repeat("x", 2*maxComplaint)
	if err := Demultiplex(io.Discard, io.Discard, strings.NewReader(frame(3, long))); !errors.As(err, &refused) || len(refused.Message) != maxComplaint {
		t.Errorf("what the engine complains of: %v", err)
	}
	full := errors.New("full")
	if err := Demultiplex(writer(func([]byte) (int, error) { return 0, full }), io.Discard, strings.NewReader(whole)); !errors.Is(err, full) {
		t.Errorf("a writer that fails: %v", err)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func FuzzDemultiplex(f *testing.F) {
	for _, text := range []string{"", frame(1, "a") + frame(2, "b"), frame(3, "no"), frame(9, ""), "\x01\x00\x00\x00\xff\xff\xff\xffx", frame(1, "abc")[:9]} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		var out, errs bytes.Buffer
		err := Demultiplex(&out, &errs, bytes.NewReader(in))
		if out.Len()+errs.Len() > len(in) {
			t.Errorf("%d bytes of %d", out.Len()+errs.Len(), len(in))
		}
		var again, againErrs bytes.Buffer
		againErr := Demultiplex(&again, &againErrs, iotest.OneByteReader(bytes.NewReader(in)))
		if (err == nil) != (againErr == nil) || out.String() != again.String() || errs.String() != againErrs.String() {
			t.Errorf("%q: in pieces it is %q %q %v, and not %q %q %v", in, again.String(), againErrs.String(), againErr, out.String(), errs.String(), err)
		}
	})
}

// hijacked is an engine that runs a command, as far as its stream goes.
func hijacked(t *testing.T, run func(in io.Reader, out io.Writer)) *Client {
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.41")
		body, _ := io.ReadAll(r.Body)
		switch ask := r.Method + " " + r.RequestURI + " " + string(body); ask {
		case "GET /_ping ":
		case `POST /v1.41/containers/abc/exec {"Cmd":["cat"],"WorkingDir":"/w","Tty":false,"AttachStdin":true,"AttachStdout":true,"AttachStderr":true}`:
			_, _ = io.WriteString(w, `{"Id":"e"}`)
		case `POST /v1.41/exec/e/start {"Detach":false,"Tty":false}`, "POST /v1.41/containers/abc/attach?stderr=1&stdout=1&stream=1 ":
			if r.Header.Get("Connection") != "Upgrade" || r.Header.Get("Upgrade") != "tcp" {
				t.Errorf("headers %v", r.Header)
			}
			conn, buffered, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			run(buffered, conn)
		default:
			t.Errorf("the engine is asked %q", ask)
			w.WriteHeader(http.StatusTeapot)
		}
	})
}

const switching = "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"

func TestACommandsStreamGoesBothWays(t *testing.T) {
	client := hijacked(t, func(in io.Reader, out io.Writer) {
		_, _ = io.WriteString(out, switching+frame(1, "at once\n")) // in one write: it must not get lost in a buffer
		all, _ := io.ReadAll(in)
		_, _ = io.WriteString(out, frame(1, string(all))+frame(2, "done\n"))
	})
	ctx, cancel := context.WithCancel(t.Context())
	id, s, err := client.Containers.Exec(ctx, "abc", Exec{Cmd: []string{"cat"}, WorkingDir: "/w"})
	if err != nil || id != "e" {
		t.Fatal(id, err)
	}
	defer s.Close()
	cancel() // it is not the stream's
	_, err = io.WriteString(s, "data\n")
	var out, errs bytes.Buffer
	if err := errors.Join(err, s.CloseWrite(), Demultiplex(&out, &errs, s)); err != nil || out.String() != "at once\ndata\n" || errs.String() != "done\n" {
		t.Errorf("%q %q %v", out.String(), errs.String(), err)
	}
}

func TestAStreamThatIsRefusedIsAnError(t *testing.T) {
	client := hijacked(t, func(_ io.Reader, out io.Writer) {
		_, _ = io.WriteString(out, "HTTP/1.1 409 Conflict\r\nContent-Length: 27\r\n\r\n{\"message\":\"it is paused\"} \n")
	})
	if _, err := client.Containers.Attach(t.Context(), "abc", false); Status(err) != http.StatusConflict || err.Error() != "it is paused" {
		t.Error(err)
	}
	for name, answer := range map[string]string{
		"an answer that is cut": "HTTP/1.1 1", "no HTTP": "hello\r\n\r\n", "headers without end": "HTTP/1.1 101 OK\r\n" + strings.Repeat("A: b\r\n", maxRefusal),
		"an answer that is not a stream": "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
	} {
		client := hijacked(t, func(_ io.Reader, out io.Writer) { _, _ = io.WriteString(out, answer) })
		if s, err := client.Containers.Attach(t.Context(), "abc", false); err == nil {
			s.Close()
			t.Errorf("%s is a stream", name)
		}
	}
}

func TestWaitingForAStreamEndsWithItsContext(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	client := hijacked(t, func(in io.Reader, _ io.Writer) {
		cancel(why)
		_, _ = bufio.NewReader(in).ReadByte() // the connection is given up
	})
	if _, err := client.Containers.Attach(ctx, "abc", false); !errors.Is(err, why) {
		t.Error(err)
	}
}
