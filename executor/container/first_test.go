package container

import (
	"bufio"
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rungci/rung/executor/container/engine"
)

const takesOver = "step-runner is listening on socket /s" + handedOver + "\n"

func TestTheOutputOfAContainerIsTheConnectionFromTheLineThatHandsItOver(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		written []string
		said    string
		begins  string // of the connection; "" is that there is none
	}{
		"at once":                {[]string{takesOver + "binary"}, takesOver, "binary"},
		"after other lines":      {[]string{"hello\n" + takesOver, "bin", "ary"}, "hello\n" + takesOver, "binary"},
		"in pieces":              {strings.SplitAfter(takesOver+"binary", ""), takesOver, "binary"},
		"a line like it follows": {[]string{takesOver + takesOver}, takesOver, takesOver},
		"with words before it":   {[]string{"12:00 " + takesOver}, "12:00 " + takesOver, ""},
		"without its end":        {[]string{strings.TrimSuffix(takesOver, "\n")}, strings.TrimSuffix(takesOver, "\n"), ""},
		"another line":           {[]string{"step-runner is listening on socket /s\nmore\n"}, "step-runner is listening on socket /s\nmore\n", ""},
		"too much of it":         {[]string{takesOver, strings.Repeat("x", maxEarly+1)}, takesOver, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var said bytes.Buffer
			f := &firstConn{said: &said}
			for _, text := range tt.written {
				if n, err := f.Write([]byte(text)); n != len(text) || err != nil {
					t.Fatalf("writing returns %d, %v", n, err)
				}
			}
			if said.String() != tt.said {
				t.Errorf("said is %q", said.String())
			}
			c := f.take()
			if (c != nil) != (tt.begins != "") {
				t.Fatalf("the connection is %v", c)
			}
			if c == nil {
				return
			}
			if f.take() != nil {
				t.Error("it can be had twice")
			}
			begin := make([]byte, len(tt.begins))
			if _, err := io.ReadFull(c, begin); err != nil || string(begin) != tt.begins {
				t.Errorf("it begins with %q, %v", begin, err)
			}
			go func() {
				_, _ = f.Write([]byte(" and later"))
				f.end(nil)
			}()
			if rest, err := io.ReadAll(c); err != nil || string(rest) != " and later" {
				t.Errorf("then it has %q, %v", rest, err)
			}
		})
	}
}

func TestAFirstConnectionThatIsOldOrEndedOrUnwantedIsNotHad(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		unwanted bool
		then     func(*firstConn)
	}{
		"old":      {then: func(f *firstConn) { f.over = f.over.Add(-firstTime - time.Second) }},
		"ended":    {then: func(f *firstConn) { _, _ = io.WriteString(f.hangUps(), "a word\n"+hungUp+"\n") }},
		"unwanted": {unwanted: true, then: func(*firstConn) {}},
	} {
		f := &firstConn{said: io.Discard, spent: tt.unwanted}
		_, _ = io.WriteString(f, takesOver)
		if tt.then(f); f.take() != nil {
			t.Errorf("one that is %s is had", name)
		}
	}
}

func TestTheFirstConnectionEndsWhenTheStepRunnerSaysSo(t *testing.T) {
	t.Parallel()
	f := &firstConn{said: io.Discard}
	_, _ = io.WriteString(f, takesOver+"all of it")
	c := f.take()
	errs := f.hangUps()
	go func() {
		for piece := range strings.SplitSeq("an error\n"+hungUp+"\n", "") {
			_, _ = io.WriteString(errs, piece)
		}
	}()
	if all, err := io.ReadAll(c); err != nil || string(all) != "all of it" {
		t.Errorf("it has %q, %v", all, err)
	}
}

func TestWhatTheEngineSendsLateIsNotCutOffTheFirstConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &firstConn{said: io.Discard}
		_, _ = io.WriteString(f, takesOver+"all of it")
		c := f.take()
		_, _ = io.WriteString(f.hangUps(), hungUp+"\n")
		go func() {
			time.Sleep(settleTime / 2)
			_, _ = io.WriteString(f, ", and the rest")
		}()
		if all, err := io.ReadAll(c); err != nil || string(all) != "all of it, and the rest" {
			t.Errorf("it has %q, %v", all, err)
		}
	})
}

func TestClosingTheFirstConnectionLeavesTheRestOfTheStream(t *testing.T) {
	t.Parallel()
	here, there := ends(t)
	f := &firstConn{said: io.Discard, input: &engine.Stream{Conn: here}}
	_, _ = io.WriteString(f, takesOver)
	c := f.take()
	if err := c.SetDeadline(time.Now().Add(time.Hour)); err != nil {
		t.Error(err)
	}
	if _, err := io.WriteString(c, "to the step-runner\n"); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	in := bufio.NewReader(there)
	if line, err := in.ReadString('\n'); err != nil || line != "to the step-runner\n" {
		t.Errorf("it reads %q, %v", line, err)
	}
	if _, err := in.ReadByte(); err != io.EOF {
		t.Errorf("then it reads %v, not the end", err)
	}
	if n, err := f.Write([]byte("nobody reads this")); n == 0 || err != nil {
		t.Errorf("what comes afterwards ends the stream: %v", err)
	}
	if _, err := io.WriteString(there, "more of the stream\n"); err != nil {
		t.Error(err)
	}
	if line, err := bufio.NewReader(here).ReadString('\n'); err != nil || line != "more of the stream\n" {
		t.Errorf("of the stream is left %q, %v", line, err)
	}
}

// ends returns the ends of a connection, each half of which can be closed.
func ends(t *testing.T) (here, there net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if here, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if there, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { here.Close(); there.Close() })
	return here, there
}
