package endpoint

import (
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// pipeListener accepts what it is given.
type pipeListener struct {
	net.Listener
	conns chan net.Conn
}

func (l *pipeListener) Accept() (net.Conn, error) { return <-l.conns, nil }

func TestAServerThatNobodyIsConnectedToEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ended atomic.Bool
		a := attend(time.Minute, func() { ended.Store(true) })
		listener := &attendedListener{&pipeListener{conns: make(chan net.Conn, 2)}, a}
		connect := func() net.Conn {
			t.Helper()
			_, there := net.Pipe()
			listener.Listener.(*pipeListener).conns <- there
			conn, err := listener.Accept()
			if err != nil {
				t.Fatal(err)
			}
			return conn
		}
		wait := func(d time.Duration, want bool) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if got := ended.Load(); got != want {
				t.Fatalf("it has ended: %t, not %t", got, want)
			}
		}
		wait(59*time.Second, false) // nobody has come yet
		first := connect()
		wait(time.Hour, false)
		second := connect()
		_ = first.Close()
		_ = first.Close() // which counts once
		wait(time.Hour, false)
		_ = second.Close()
		wait(59*time.Second, false)
		_ = connect().Close() // somebody looks in
		wait(59*time.Second, false)
		wait(time.Second, true)
	})
}

func TestAServerThatEndsIsNotAttendedAnyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := attend(time.Minute, func() { t.Error("it ends once more") })
		a.stop()
		time.Sleep(time.Hour)
		synctest.Wait()
	})
}
