package secrets

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rungci/rung/steps/catalog/program"
	"github.com/rungci/rung/steps/catalog/selection"
	"github.com/rungci/rung/steps/catalog/transfer"
)

const (
	// vaultLimit bounds all that the step does: it waits for a server that is slow, and not for ever.
	vaultLimit = 3 * time.Minute
	// revokeLimit bounds how long revoking the token may take, also when the step is stopped.
	revokeLimit = 10 * time.Second
	// maxCertificates bounds a file of certificates, in bytes.
	maxCertificates = 4 << 20
)

type vaultInputs struct {
	Server     string `json:"server"`
	Namespace  string `json:"namespace"`
	CAFile     string `json:"ca_file"`
	JWT        string `json:"jwt"`
	AuthPath   string `json:"auth_path"`
	Role       string `json:"role"`
	Engine     string `json:"engine"`
	EnginePath string `json:"engine_path"`
	Path       string `json:"path"`
	Field      string `json:"field"`
	File       bool   `json:"file"`
	Folder     string `json:"folder"`
	Name       string `json:"name"`
}

// clientHook changes the client of the tests.
var clientHook = func(*transfer.Client) {}

// Vault is builtin://secrets/vault: it logs in with an identity token, reads one field of one secret, and logs out.
func Vault(ctx context.Context, call *program.Call) error {
	var in vaultInputs
	if err := call.Decode(&in); err != nil {
		return err
	}
	to := &target{name: in.Name, file: in.File, folder: in.Folder}
	if err := errors.Join(in.check(), to.check()); err != nil {
		return err
	}
	v, err := in.open(call)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, vaultLimit, fmt.Errorf("%s took longer than %v", v.shown(), vaultLimit))
	defer cancel()
	secret, err := in.read(ctx, call, v)
	if err != nil {
		return err
	}
	return to.give(call, secret)
}

// read logs in, reads and logs out. The token is revoked also when the secret cannot be read.
func (in *vaultInputs) read(ctx context.Context, call *program.Call, v *vault) (string, error) {
	fmt.Fprintf(call.Stdout, "Reading %s of %s from %s\n", in.Field, in.secretPath(), v.shown())
	if err := v.login(ctx, in.AuthPath, in.Role, in.JWT); err != nil {
		return "", v.failed(fmt.Errorf("logging in to %s at %s with %s: %w", v.shown(), in.AuthPath, in.role(), err))
	}
	defer v.logout(ctx, call)
	fields, err := v.fields(ctx, in.Engine, in.EnginePath, in.Path)
	if err == nil {
		var text string
		if text, err = field(fields, in.Field); err == nil {
			return text, nil
		}
	}
	return "", v.failed(fmt.Errorf("the secret %s of %s, with %s: %w", in.secretPath(), v.shown(), in.role(), err))
}

func (in *vaultInputs) role() string {
	if in.Role == "" {
		return "the default role"
	}
	return fmt.Sprintf("the role %q", in.Role)
}

// secretPath is the secret as people name it.
func (in *vaultInputs) secretPath() string { return in.EnginePath + "/" + in.Path }

// check reports what is wrong with the inputs, and takes slashes off the ends of paths.
func (in *vaultInputs) check() error {
	var problems []error
	for _, part := range []struct {
		what string
		text *string
	}{{"auth_path", &in.AuthPath}, {"engine_path", &in.EnginePath}, {"path", &in.Path}} {
		*part.text = strings.Trim(*part.text, "/")
		if bad := slices.ContainsFunc(strings.Split(*part.text, "/"), func(s string) bool { return s == "" || s == "." || s == ".." }); bad {
			problems = append(problems, fmt.Errorf("%s is %q; it must be names with / between them", part.what, *part.text))
		}
	}
	if strings.TrimSpace(in.JWT) == "" {
		problems = append(problems, errors.New("jwt is empty; give the job an identity token with id_tokens"))
	}
	if in.Field == "" {
		problems = append(problems, errors.New("field is empty; it says which of the secret's values is meant"))
	}
	return errors.Join(problems...)
}

// open makes the client of the server.
func (in *vaultInputs) open(call *program.Call) (*vault, error) {
	u, err := url.Parse(in.Server)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return nil, errors.New("server must be an address such as https://vault.example.com")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("server must be an address without user, query and fragment, such as %s", transfer.Address(in.Server))
	}
	if u.Scheme == "http" && !local(u.Hostname()) {
		selection.Warn(call, "%s is not encrypted: whoever is on the way can read the token and the secret", transfer.Address(in.Server))
	}
	v := &vault{base: u, namespace: strings.Trim(in.Namespace, "/"), jwt: strings.TrimSpace(in.JWT)}
	v.client.Again = func(err error, wait time.Duration) {
		selection.Warn(call, "%v; trying again in %v", v.clean(err), wait.Round(time.Second/10))
	}
	if v.hops.RoundTripper, err = transport(call, in.CAFile); err != nil {
		return nil, err
	}
	v.client.Transport = &v.hops
	clientHook(&v.client)
	return v, nil
}

// local reports whether a host is this machine.
func local(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// transport returns what carries requests. The certificates of a file are trusted besides the system's.
func transport(call *program.Call, caFile string) (http.RoundTripper, error) {
	t := http.DefaultTransport.(*http.Transport).Clone()
	if caFile == "" {
		return t, nil
	}
	if !filepath.IsAbs(caFile) {
		caFile = filepath.Join(call.WorkDir, caFile)
	}
	info, err := os.Stat(caFile)
	if err != nil {
		return nil, fmt.Errorf("ca_file: %w", err)
	}
	if info.Size() > maxCertificates {
		return nil, fmt.Errorf("ca_file: %s has %d bytes; at most %d are read", caFile, info.Size(), maxCertificates)
	}
	text, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("ca_file: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("ca_file: %s holds no certificate in PEM", caFile)
	}
	t.TLSClientConfig.RootCAs = pool
	return t, nil
}

// maxNames is how many fields an error names.
const maxNames = 10

// field returns a field as text: a text as it is, anything else as JSON.
func field(fields map[string]json.RawMessage, name string) (string, error) {
	raw, ok := fields[name]
	if !ok {
		names := make([]string, 0, len(fields))
		for name := range fields {
			names = append(names, fmt.Sprintf("%q", name))
		}
		slices.Sort(names)
		if len(names) > maxNames {
			names = append(names[:maxNames], fmt.Sprintf("and %d more", len(names)-maxNames))
		}
		if len(names) == 0 {
			return "", fmt.Errorf("it has no field %q, and no other", name)
		}
		return "", fmt.Errorf("it has no field %q; there are %s", name, strings.Join(names, ", "))
	}
	var text string
	if len(raw) > 0 && raw[0] != '"' {
		if string(raw) == "null" {
			return "", fmt.Errorf("its field %q is null", name)
		}
		return string(raw), nil
	}
	if err := json.Unmarshal(raw, &text); err != nil {
		return "", fmt.Errorf("its field %q cannot be read", name) // the error of the parser may quote it
	}
	return text, nil
}
