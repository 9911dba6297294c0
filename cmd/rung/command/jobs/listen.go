package jobs

import (
	"crypto/rand"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"sync"
	"time"

	"github.com/rungci/rung/cmd/rung/command/place"
	"github.com/rungci/rung/manager"
	"github.com/rungci/rung/manager/statestorage"
	"github.com/rungci/rung/manager/status"
)

// listening serves what operators see of a manager: on the socket in its state folder, and where listen_address says.
type listening struct {
	board *status.Board
	key   string
	log   *slog.Logger

	mu      sync.Mutex
	asked   string // as the configuration has it
	address net.Addr
	public  *http.Server
	private *http.Server
}

// newListening makes a board, and what serves it.
func newListening(version string) *listening {
	key := rand.Text()
	return &listening{board: status.New(status.Options{Version: version, Key: key}), key: key}
}

func server(h http.Handler) *http.Server {
	return &http.Server{
		Handler: h, ReadTimeout: status.RequestTimeout, WriteTimeout: status.AnswerTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: status.MaxHeader,
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
}

// open listens on the socket, once. A manager without it works as well.
func (l *listening) open(state string) {
	if l.private != nil {
		return
	}
	path := place.Socket(state)
	_ = os.Remove(path) // of the process before: the state folder is this one's alone
	listener, err := net.Listen("unix", path)
	if err == nil {
		err = os.Chmod(path, 0o600)
	}
	if long := place.SocketError(state, err); long != nil {
		err = long
	}
	if err != nil {
		l.log.Warn("`rung status` does not reach this process", "error", err)
		return
	}
	l.private = server(l.board.Private(l.page))
	go func() { _ = l.private.Serve(listener) }()
}

// listen serves at the address of the configuration, and no longer at the one before.
func (l *listening) listen(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if address == l.asked {
		return
	}
	if l.public != nil {
		_ = l.public.Close()
		l.public, l.address = nil, nil
	}
	if l.asked = address; address == "" {
		return
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		l.asked = "" // the next reading of the configuration tries again
		l.log.Error("metrics are not served (listen_address)", "error", err)
		return
	}
	l.address, l.public = listener.Addr(), server(l.board.Public())
	go func(s *http.Server) { _ = s.Serve(listener) }(l.public)
	l.log.Info("metrics and status are served", "address", listener.Addr().String())
}

// begin serves what a manager can say.
func (l *listening) begin(m *manager.Manager, state, address string) {
	l.board.Loaded(nil)
	l.board.Show(m)
	l.open(state)
	l.listen(address)
}

// waits serves what a manager that waits can say. The state folder is its own by then.
func (l *listening) waits(state, address string, w statestorage.Waiting) {
	shown := &status.Waiting{Manager: w.Name, Until: w.Until}
	if w.Err != nil {
		shown.Trouble = w.Err.Error()
	}
	l.board.Wait(shown)
	l.open(state)
	l.listen(address)
}

// page is the address of the page, with the key; empty where nothing is served.
func (l *listening) page() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.address == nil {
		return ""
	}
	host, port, err := net.SplitHostPort(l.address.String())
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return (&url.URL{Scheme: "http", Host: net.JoinHostPort(host, port), Path: "/", RawQuery: "key=" + l.key}).String()
}

func (l *listening) close() {
	l.listen("")
	if l.private != nil {
		_ = l.private.Close()
	}
}
