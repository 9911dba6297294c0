package endpoint

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc/credentials"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/internal/tempfolder"
	"github.com/rungci/rung/steps/service"
	"github.com/rungci/rung/steps/source"
)

// Flags say where a server listens, and whom it lets in.
type Flags struct {
	Service     ServiceFlags
	socket      string
	listen      string
	tlsCert     string
	tlsKey      string
	tlsClientCA string
	tokenFile   string
	noAuth      bool
	endWith     []string // with what its owner ends it
	unattended  time.Duration
	folders     []string // that are made first, as MODE:PATH
	ownFolders  []string // the same, which are this user's then
	connected   string   // descriptors of the first connection to the socket, as IN,OUT
}

// Owner is the program that the server ends with.
func (o *Flags) Owner() (*Owner, error) { return newOwner(o.endWith, o.socket, o.unattended) }

// Declare declares the flags.
func (o *Flags) Declare(f *pflag.FlagSet) {
	f.StringVar(&o.socket, "socket", "", "listen on the unix socket `PATH`")
	f.StringVar(&o.listen, "listen", "", "listen on the TCP address `HOST:PORT`; port 0 picks a free one")
	f.StringVar(&o.tlsCert, "tls-cert", "", "use the certificate chain in the PEM `FILE`")
	f.StringVar(&o.tlsKey, "tls-key", "", "use the private key in the PEM `FILE`")
	f.StringVar(&o.tlsClientCA, "tls-client-ca", "", "accept clients with a certificate from a CA in the PEM `FILE`")
	f.StringVar(&o.tokenFile, "token-file", "", "accept clients that present the token in `FILE`")
	f.BoolVar(&o.noAuth, "no-auth", false, "accept every user on this machine; loopback addresses only")
	f.StringVar(&o.Service.metrics, "metrics", "", "serve Prometheus metrics on `[HOST]:PORT`; without HOST for this machine only")
	f.StringArrayVar(&o.endWith, "end-with", nil, "exit at once, with all runs, when `WHAT` happens: stdin (it is closed), line (one is read from it) or socket (it is removed)")
	f.DurationVar(&o.unattended, "end-unattended", 0, "exit at once, with all runs, if no client is connected for `TIME` (default: never)")
	f.StringArrayVar(&o.folders, "folder", nil, "create the folder `MODE:PATH` first, unless it exists")
	f.StringArrayVar(&o.ownFolders, "own-folder", nil, "create the folder `MODE:PATH` first; one that exists gets this mode, and this user as its owner")
	f.StringVar(&o.connected, "connected", "", "accept the pipes with the descriptors `IN,OUT` as the first connection to the socket")
	for _, name := range []string{"end-with", "folder", "own-folder", "connected"} {
		_ = f.MarkHidden(name) // for the program that starts the server
	}

	o.Service.flags(f)
}

// Endpoint is one way to a service.
type Endpoint struct {
	Name     string // "socket PATH" or "HOST:PORT"
	Listener net.Listener
	Access   service.Access
	Server   *service.Server // when it was started
	also     string          // what is announced on standard output beside the name
}

// Start serves until the server is stopped. What goes wrong goes to failed.
func (e *Endpoint) Start(svc *service.Service, failed chan<- error) {
	e.Server = service.NewServer(svc, e.Access)
	go func() {
		if err := e.Server.Serve(e.Listener); err != nil {
			failed <- fmt.Errorf("serving on %s: %w", e.Name, err)
		}
	}()
}

// CloseAll stops listening.
func CloseAll(endpoints []*Endpoint) {
	for _, e := range endpoints {
		_ = e.Listener.Close()
	}
}

// Open listens everywhere that the flags say.
func (o *Flags) Open(p *command.Program) (endpoints []*Endpoint, err error) {
	defer func() {
		if err != nil {
			CloseAll(endpoints)
		}
	}()
	if o.listen == "" && (o.tlsCert != "" || o.tlsKey != "" || o.tlsClientCA != "" || o.tokenFile != "" || o.noAuth) {
		return nil, exit.Usage("TLS, tokens and --no-auth require --listen").
			Hinted("only your own user can connect to a unix socket")
	}
	if err := errors.Join(makeFolders(o.folders, false), makeFolders(o.ownFolders, true)); err != nil {
		return nil, err
	}
	if o.listen != "" {
		access, err := o.access(p)
		if err != nil {
			return nil, err
		}
		listener, err := net.Listen("tcp", o.listen)
		if err != nil {
			return nil, ListenError(err)
		}
		endpoints = append(endpoints, &Endpoint{Name: listener.Addr().String(), Listener: listener, Access: access})
	}
	if o.socket != "" {
		tempfolder.Fallback(filepath.Dir(o.socket)) // of the job's own, in a container
		listener, err := service.ListenUnix(o.socket)
		if err != nil {
			return endpoints, ListenError(err)
		}
		e := &Endpoint{Name: "socket " + o.socket, Listener: listener}
		if o.connected != "" {
			e.Listener, e.also = withConnection(listener, o.connected, p.Stderr)
		}
		endpoints = append(endpoints, e)
	}
	return endpoints, nil
}

// makeFolders creates folders that do not exist, each MODE:PATH with an octal mode, to which the umask does not apply. With own, those that exist get
// the mode, and this process's user as their owner.
func makeFolders(folders []string, own bool) error {
	for _, folder := range folders {
		digits, path, _ := strings.Cut(folder, ":")
		mode, err := strconv.ParseUint(digits, 8, 32)
		if err != nil || mode > 0o1777 || !filepath.IsAbs(path) {
			return exit.Usage("--folder must be MODE:PATH, such as 0700:/run/steps, not %q", folder)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("creating a folder: %w", err)
		}
		err = os.Mkdir(path, 0o700)
		if errors.Is(err, fs.ErrExist) {
			if !own {
				continue
			}
			err = os.Chown(path, os.Geteuid(), os.Getegid())
		}
		if err == nil {
			bits := fs.FileMode(mode & 0o777)
			if mode&0o1000 != 0 {
				bits |= fs.ModeSticky
			}
			err = os.Chmod(path, bits)
		}
		if err != nil {
			return fmt.Errorf("creating a folder: %w", err)
		}
	}
	return nil
}

// Place finds the socket to listen on.
func (o *Flags) Place(args []string) error {
	switch {
	case len(args) > 0 && o.socket != "":
		return exit.Usage("DIR and --socket cannot be used together").Hinted("use one of them")
	case len(args) > 0:
		dir := strings.TrimSpace(args[0])
		if info, err := os.Stat(dir); err != nil || !info.IsDir() {
			return exit.Coded(exit.NotFound, "%q is not a folder", dir).Hinted("the socket %s is made in a folder that exists", service.SocketName)
		}
		o.socket = filepath.Join(dir, service.SocketName)
	case o.socket == "" && o.listen == "":
		if err := service.MakeSocketFolder(); err != nil {
			return exit.Coded(exit.Denied, "making the folder of the socket: %v", err).Hinted("remove it, or say where to listen with --socket")
		}
		o.socket = service.DefaultSocket()
	}
	return nil
}

// access makes what TCP clients need, and refuses what would let in more than their user means to.
func (o *Flags) access(p *command.Program) (service.Access, error) {
	var access service.Access
	local, err := loopback(o.listen)
	secure := o.tlsCert != "" || o.tlsKey != ""
	switch {
	case err != nil:
		return access, err
	case (o.tlsCert == "") != (o.tlsKey == ""):
		return access, exit.Usage("TLS requires both --tls-cert and --tls-key")
	case o.tlsClientCA != "" && !secure:
		return access, exit.Usage("--tls-client-ca requires --tls-cert and --tls-key")
	case !secure && !local:
		return access, exit.Usage("%s is not a loopback address, and what clients send to it would cross the network unencrypted", o.listen).
			Hinted("give the server a certificate with --tls-cert and --tls-key, or listen on 127.0.0.1")
	case o.noAuth && !local:
		return access, exit.Usage("--no-auth would let in everyone who can reach %s", o.listen).Hinted("use --tls-client-ca or --token-file")
	case o.noAuth && (o.tokenFile != "" || o.tlsClientCA != ""):
		return access, exit.Usage("--no-auth cannot be used with --token-file or --tls-client-ca").Hinted("keep one")
	case !o.noAuth && o.tokenFile == "" && o.tlsClientCA == "":
		return access, exit.Usage("there is no rule for who may connect").
			Hinted("use --token-file, or --tls-client-ca with TLS; on a loopback address, --no-auth lets in every user on this machine")
	}
	if o.tokenFile != "" {
		if access.Token, err = ReadToken(p, o.tokenFile); err != nil {
			return access, err
		}
	}
	if secure {
		access.TLS, err = o.credentials()
	}
	return access, err
}

// loopback reports whether nobody but this machine can reach an address.
func loopback(address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, exit.Usage("--listen: %v", err).Hinted("write HOST:PORT, such as 127.0.0.1:7000 or [::1]:7000")
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback(), nil
}

// ReadToken reads a token, and says so when other users can, too.
func ReadToken(p *command.Program, path string) (*service.Token, error) {
	text, err := source.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, err
	}
	if err != nil {
		return nil, exit.Coded(exit.Definition, "--token-file: %v", err)
	}
	token, err := service.NewToken(string(text))
	if err != nil {
		return nil, exit.Coded(exit.Definition, "--token-file %s: %v", path, err)
	}
	if info, err := os.Stat(path); err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		fmt.Fprintf(p.Stderr, "warning: other users may read the token in %s; `chmod 600` keeps it yours\n", path)
	}
	return token, nil
}

// credentials makes those of TLS.
func (o *Flags) credentials() (credentials.TransportCredentials, error) {
	pair, err := tls.LoadX509KeyPair(o.tlsCert, o.tlsKey)
	if err != nil {
		return nil, fileError("--tls-cert and --tls-key", err)
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	if o.tlsClientCA != "" {
		text, err := os.ReadFile(o.tlsClientCA)
		if err != nil {
			return nil, fileError("--tls-client-ca", err)
		}
		config.ClientCAs, config.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		if !config.ClientCAs.AppendCertsFromPEM(text) {
			return nil, exit.Coded(exit.Definition, "--tls-client-ca: %s holds no certificate", o.tlsClientCA)
		}
	}
	return credentials.NewTLS(config), nil
}

// fileError is the error of a file that a flag names.
func fileError(flag string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return err
	}
	return exit.Coded(exit.Definition, "%s: %v", flag, err)
}
