package sourcetest

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/subtle"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"
)

// GitProgram returns the path of the git program, which the servers of repositories run, or why there is none.
func GitProgram() (string, error) {
	program, err := exec.LookPath("git")
	if err != nil {
		return "", errors.New("there is no git")
	}
	return program, nil
}

// GitOptions are how a folder of repositories is served.
type GitOptions struct {
	Repos string // the folder
	// User and Password are asked for if there is a password.
	User, Password string
	// Config are settings of Git, each "section.key=value", such as "uploadpack.allowAnySHA1InWant=true".
	Config []string
	TLS    bool // of an HTTP server: HTTPS, with a certificate that Client trusts
	// Keys are whom an SSH server lets in.
	Keys []ssh.PublicKey
	// Handle gets the requests to an HTTP server, with what would serve them; nil serves them.
	Handle func(w http.ResponseWriter, r *http.Request, serve http.Handler)
}

// env is the environment of the git program: nothing of the user's.
func (o *GitOptions) env() []string {
	env := []string{
		"GIT_PROJECT_ROOT=" + o.Repos, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull, "HOME=" + o.Repos,
		fmt.Sprintf("GIT_CONFIG_COUNT=%d", len(o.Config)),
	}
	for i, setting := range o.Config {
		key, value, _ := strings.Cut(setting, "=")
		env = append(env, fmt.Sprintf("GIT_CONFIG_KEY_%d=%s", i, key), fmt.Sprintf("GIT_CONFIG_VALUE_%d=%s", i, value))
	}
	return env
}

// GitRequest is a request that a server got.
type GitRequest struct {
	Method, Path string // with its query
	User         string // who it says it is from
	Sent         int64  // bytes of the answer's body
}

// GitHTTP serves repositories with git http-backend.
type GitHTTP struct {
	URL    string       // of the folder, without a slash at its end
	Client *http.Client // that trusts the server's certificate
	server *httptest.Server

	mu       sync.Mutex
	requests []*GitRequest
}

// StartGitHTTP starts a server on this machine. Close it.
func StartGitHTTP(o GitOptions) (*GitHTTP, error) {
	program, err := GitProgram()
	if err != nil {
		return nil, err
	}
	backend := &cgi.Handler{Path: program, Args: []string{"http-backend"}, Env: o.env(), InheritEnv: []string{"PATH"}, Stderr: io.Discard}
	g := &GitHTTP{}
	serve := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		request := g.note(&GitRequest{Method: r.Method, Path: r.URL.RequestURI(), User: user})
		if o.Password != "" && (user != o.User || subtle.ConstantTimeCompare([]byte(password), []byte(o.Password)) != 1) {
			w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		counting := &countingWriter{ResponseWriter: w}
		if o.Handle != nil {
			o.Handle(counting, r, backend)
		} else {
			backend.ServeHTTP(counting, r)
		}
		g.mu.Lock()
		request.Sent = counting.n
		g.mu.Unlock()
	})
	g.server = httptest.NewUnstartedServer(serve)
	g.server.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that do not trust it are what tests are about
	if o.TLS {
		g.server.StartTLS()
	} else {
		g.server.Start()
	}
	g.URL, g.Client = g.server.URL, g.server.Client()
	return g, nil
}

// Certificate is that of a server with TLS, as PEM.
func (g *GitHTTP) Certificate() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.server.Certificate().Raw})
}

func (g *GitHTTP) note(r *GitRequest) *GitRequest {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests = append(g.requests, r)
	return r
}

// Requests returns what the server was asked since the last call.
func (g *GitHTTP) Requests() []GitRequest {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []GitRequest
	for _, r := range g.requests {
		all = append(all, *r)
	}
	g.requests = nil
	return all
}

// Close stops the server.
func (g *GitHTTP) Close() {
	g.server.CloseClientConnections()
	g.server.Close()
}

type countingWriter struct {
	http.ResponseWriter
	n int64
}

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.n += int64(n)
	return n, err
}

// Unwrap gives http.ResponseController what is below.
func (w *countingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// GitSSH serves repositories over SSH.
type GitSSH struct {
	Addr    string // host:port
	HostKey ssh.PublicKey

	listener net.Listener
	options  GitOptions
	program  string
	cancel   context.CancelFunc
	ctx      context.Context
	wait     sync.WaitGroup

	mu       sync.Mutex
	commands []string
}

// StartGitSSH starts a server on this machine that lets in the options' keys, and its password. Close it.
func StartGitSSH(o GitOptions) (*GitSSH, error) {
	program, err := GitProgram()
	if err != nil {
		return nil, err
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		return nil, err
	}
	config := &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if slices.ContainsFunc(o.Keys, func(k ssh.PublicKey) bool { return string(k.Marshal()) == string(key.Marshal()) }) {
			return nil, nil
		}
		return nil, errors.New("unknown key")
	}}
	if o.Password != "" {
		config.PasswordCallback = func(_ ssh.ConnMetadata, password []byte) (*ssh.Permissions, error) {
			if subtle.ConstantTimeCompare(password, []byte(o.Password)) == 1 {
				return nil, nil
			}
			return nil, errors.New("wrong password")
		}
	}
	config.AddHostKey(signer)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s := &GitSSH{Addr: listener.Addr().String(), HostKey: signer.PublicKey(), listener: listener, options: o, program: program}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.wait.Go(func() { s.accept(config) })
	return s, nil
}

// KnownHosts is a known_hosts file that has the server's key.
func (s *GitSSH) KnownHosts() string { return knownhosts.Line([]string{s.Addr}, s.HostKey) + "\n" }

// Commands returns what the server was asked to run since the last call.
func (s *GitSSH) Commands() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.commands
	s.commands = nil
	return all
}

// Close stops the server.
func (s *GitSSH) Close() {
	s.cancel()
	_ = s.listener.Close()
	s.wait.Wait()
}

func (s *GitSSH) accept(config *ssh.ServerConfig) {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.wait.Go(func() {
			stop := context.AfterFunc(s.ctx, func() { _ = conn.Close() })
			defer stop()
			defer conn.Close()
			_, channels, requests, err := ssh.NewServerConn(conn, config)
			if err != nil {
				return
			}
			go ssh.DiscardRequests(requests)
			for c := range channels {
				if c.ChannelType() != "session" {
					_ = c.Reject(ssh.UnknownChannelType, "sessions only")
					continue
				}
				if channel, requests, err := c.Accept(); err == nil {
					s.wait.Go(func() { s.session(channel, requests) })
				}
			}
		})
	}
}

func (s *GitSSH) session(channel ssh.Channel, requests <-chan *ssh.Request) {
	defer channel.Close()
	for r := range requests {
		if r.Type != "exec" {
			_ = r.Reply(false, nil)
			continue
		}
		var command struct{ Text string }
		if err := ssh.Unmarshal(r.Payload, &command); err != nil {
			return
		}
		_ = r.Reply(true, nil)
		code := s.run(channel, command.Text)
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{code}))
		return
	}
}

func (s *GitSSH) run(channel ssh.Channel, command string) (code uint32) {
	s.mu.Lock()
	s.commands = append(s.commands, command)
	s.mu.Unlock()
	quoted, ok := strings.CutPrefix(command, "git-upload-pack '")
	if !ok || !strings.HasSuffix(quoted, "'") {
		fmt.Fprintf(channel.Stderr(), "only git-upload-pack is served\n")
		return 1
	}
	name := path.Clean("/" + strings.TrimSuffix(quoted, "'"))
	cmd := exec.CommandContext(s.ctx, s.program, "upload-pack", filepath.Join(s.options.Repos, filepath.FromSlash(name)))
	cmd.Env = append(s.options.env(), "PATH="+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = channel, channel.Stderr()
	in, err := cmd.StdinPipe()
	if err != nil {
		return 1
	}
	go func() {
		defer in.Close()
		buf := make([]byte, 32<<10)
		for {
			n, err := channel.Read(buf)
			if _, werr := in.Write(buf[:n]); err != nil || werr != nil {
				return
			}
		}
	}()
	if cmd.Run() != nil {
		return 128
	}
	return 0
}
