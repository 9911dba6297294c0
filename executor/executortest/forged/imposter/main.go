// Command imposter is the entrypoint of images for tests: it replaces the step-runner that it should start.
//
//	imposter ROLE [argument] [the command that it is given, which it does not run]
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/rungci/rung/executor/executortest/forged"
	"github.com/rungci/rung/steps/event"
)

// socket is where a step-runner in a job's container listens.
const socket = "/opt/rung/run/step-runner.sock"

// roles are what an imposter can be. Those of them that return end it.
var roles = map[string]func(argument string) error{
	"exits":     func(string) error { return nil },
	"sleeps":    func(string) error { return sleep() },
	"babbles":   func(string) error { return babble(os.Stdout) },
	"announces": func(string) error { announce(); return sleep() },
	"noise":     serve(func(c net.Conn) { _ = babble(c) }),
	"hangs up":  serve(func(c net.Conn) { c.Close() }),
	"is silent": serve(func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }),
	"shakes hands and hangs up": serve(func(c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")))
		_, _ = c.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0}) // settings, none
		c.Close()
	}),
	"another server": serve(func(c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK")
		_, _ = io.Copy(io.Discard, c)
	}),
	"nonsense":   tell(nonsense),
	"never ends": tell(neverEnds),
	"ends too early": tell(func(run string, tell func(event.Event) error) error {
		return tell(event.Event{Body: event.RunStarted{ID: run}})
	}),
	"endless log":    tell(endlessLog),
	"endless events": tell(endlessEvents),
	"story":          story,
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: imposter ROLE ARGUMENT")
		os.Exit(2)
	}
	role := roles[os.Args[1]]
	if role == nil {
		fmt.Fprintf(os.Stderr, "no role %q\n", os.Args[1])
		os.Exit(2)
	}
	if err := role(os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// announce says what a step-runner says when it listens.
func announce() { fmt.Println("step-runner is listening on " + socket) }

// sleep is longer than any test.
func sleep() error { time.Sleep(time.Hour); return nil }

func babble(w io.Writer) error {
	noise := bytes.Repeat([]byte("\xff\x00 noise \x1b[2J"), 100)
	for {
		if _, err := w.Write(noise); err != nil {
			return err
		}
		time.Sleep(time.Millisecond) // a machine has other work, too
	}
}

func listen() (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o700); err != nil {
		return nil, err
	}
	return net.Listen("unix", socket)
}

// serve does something with every connection.
func serve(with func(net.Conn)) func(string) error {
	return func(string) error {
		l, err := listen()
		if err != nil {
			return err
		}
		announce()
		for {
			c, err := l.Accept()
			if err != nil {
				return err
			}
			go with(c)
		}
	}
}

// tell is a step-runner that runs nothing.
func tell(teller forged.Teller) func(string) error {
	return func(string) error {
		l, err := listen()
		if err != nil {
			return err
		}
		announce()
		return forged.NewServer(teller).Serve(l)
	}
}

func neverEnds(run string, tell func(event.Event) error) error {
	if err := tell(event.Event{Body: event.RunStarted{ID: run}}); err != nil {
		return err
	}
	return sleep()
}

// nonsense ends what has not begun, about another run.
func nonsense(_ string, tell func(event.Event) error) error {
	for _, e := range []event.Event{
		{Step: "99", Body: event.StepFinished{Status: "splendid"}},
		{Step: "../..", Body: event.Log{Offset: math.MinInt64, Data: []byte("from before the beginning")}},
		{Body: event.RunFinished{Status: "splendid"}},
	} {
		if err := tell(e); err != nil {
			return err
		}
	}
	return nil
}

func endlessLog(run string, tell func(event.Event) error) error {
	err := tell(event.Event{Body: event.RunStarted{ID: run}})
	line := bytes.Repeat([]byte("more "), 20<<10)
	for offset := int64(0); err == nil; offset += int64(len(line)) {
		err = tell(event.Event{Step: "1", Body: event.Log{Stream: event.Stdout, Offset: offset, Data: line}})
	}
	return err
}

func endlessEvents(run string, tell func(event.Event) error) error {
	err := tell(event.Event{Body: event.RunStarted{ID: run}})
	name := string(bytes.Repeat([]byte("more "), 20<<10))
	for err == nil {
		err = tell(event.Event{Body: event.Warning{Message: name}})
	}
	return err
}

// story tells the claims in a file, each as a step that succeeded.
func story(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var claims []forged.Claim
	if err := json.Unmarshal(text, &claims); err != nil {
		return err
	}
	var told []event.Event
	for i, c := range claims {
		told = append(told, forged.Step(fmt.Sprint(i+1), c)...)
	}
	return tell(func(run string, tell func(event.Event) error) error { return forged.Tell(run, told, tell) })(file)
}
