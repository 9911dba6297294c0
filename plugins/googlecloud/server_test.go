package main

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
	"google.golang.org/api/compute/v1"
	"google.golang.org/api/oslogin/v1"
)

// server is Google's REST API over a world. Each request is checked against Google's own description of the API, and so is each answer; what does not conform fails the test.
type server struct {
	*world
	*httptest.Server
	compute, oslogin *discovery
	credentials      string // a file
	hostKey          ssh.PublicKey

	// fault says what goes wrong with a request of a method; the zero fault is nothing.
	fault func(method string) fault

	guard  sync.Mutex
	wrong  []string
	counts map[string]int // how often each method was called
	stale  map[string]any // the list before
}

// fault is what goes wrong with one request.
type fault struct {
	lost    bool // the answer does not arrive
	stale   bool // a list is the one before
	refused *refusal
	after   int // seconds that a refused request has to wait
}

const account = "runner@a-project.iam.example.com"

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{
		world: newWorld(), compute: readDiscovery(t, "compute/v1/compute-api.json"), oslogin: readDiscovery(t, "oslogin/v1/oslogin-api.json"),
		counts: map[string]int{}, stale: map[string]any{}, fault: func(string) fault { return fault{} },
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.Close()
		s.guard.Lock()
		defer s.guard.Unlock()
		for _, w := range s.wrong {
			t.Error("the judge:", w)
		}
	})
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": project, "private_key_id": "k", "client_email": account, "client_id": "1", "token_uri": s.URL + "/token",
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	if err != nil {
		t.Fatal(err)
	}
	s.credentials = filepath.Join(t.TempDir(), "credentials.json")
	if err := os.WriteFile(s.credentials, text, 0o600); err != nil {
		t.Fatal(err)
	}
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err == nil {
		s.hostKey, err = ssh.NewPublicKey(public)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// object reports what the judge has found wrong.
func (s *server) object(format string, args ...any) {
	s.guard.Lock()
	defer s.guard.Unlock()
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

func (s *server) count(method string) int {
	s.guard.Lock()
	defer s.guard.Unlock()
	return s.counts[method]
}

const bearer = "a-token"

// ServeHTTP implements http.Handler.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.URL.Path == "/token" {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"access_token": %q, "token_type": "Bearer", "expires_in": 3600}`, bearer)
		return
	}
	api := s.compute
	if strings.HasPrefix(r.URL.Path, "/v1/users/") {
		api = s.oslogin
	}
	m, in, err := api.find(r)
	if err == nil {
		err = api.checkBody(m, body)
	}
	if err != nil {
		s.object("%v", err)
		s.refuse(w, &refusal{400, "invalid", err.Error()}, 0)
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+bearer {
		s.refuse(w, &refusal{401, "authError", "Invalid Credentials"}, 0)
		return
	}
	s.guard.Lock()
	s.counts[m.ID]++
	what := s.fault(m.ID)
	s.guard.Unlock()
	if what.refused != nil {
		s.refuse(w, what.refused, what.after)
		return
	}
	answer, refused := s.answer(m.ID, in, r, body, what.stale)
	if what.lost {
		panic(http.ErrAbortHandler)
	}
	if refused != nil {
		s.refuse(w, refused, 0)
		return
	}
	text, err := json.Marshal(answer)
	var value any
	if err == nil {
		err = json.Unmarshal(text, &value)
	}
	if err == nil {
		err = api.check("the answer of "+m.ID, m.Response, value, "")
	}
	if err != nil {
		s.object("%v", err)
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(text)
}

func (s *server) refuse(w http.ResponseWriter, r *refusal, after int) {
	if after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(after))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.status)
	_, _ = w.Write(r.body())
}

// strict decodes a body into Google's own type, which must have all that is in it.
func strict[T any](s *server, body []byte) *T {
	out := new(T)
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(out); err != nil {
		s.object("%T: %v", out, err)
	}
	return out
}

// answer is what the API says to a request that it understands.
func (s *server) answer(id string, in map[string]string, r *http.Request, body []byte, stale bool) (any, *refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in["project"] != "" && in["project"] != project {
		return nil, &refusal{403, "forbidden", "the caller does not have the permission compute.instances.list"}
	}
	query := r.URL.Query()
	switch id {
	case "compute.instances.list":
		s.look()
		items, next := page(s, id+in["zone"]+query.Get("filter"), s.instances(in["zone"], query.Get("filter")), query.Get("pageToken"), stale)
		return &compute.InstanceList{Items: items, NextPageToken: next}, nil
	case "compute.zoneOperations.list":
		var all []*compute.Operation
		for _, op := range s.ops {
			if query.Get("filter") == fmt.Sprintf("targetId = %d", op.TargetId) {
				one := op.Operation
				all = append(all, &one)
			}
		}
		items, next := page(s, id, all, query.Get("pageToken"), false)
		return &compute.OperationList{Items: items, NextPageToken: next}, nil
	case "compute.zoneOperations.get", "compute.regionOperations.get":
		s.look()
		op := s.ops[in["operation"]]
		if op == nil || (op.Zone == "") != (in["zone"] == "") {
			return nil, &refusal{404, "notFound", "there is no operation " + in["operation"]}
		}
		one := op.Operation
		return &one, nil
	case "compute.machineTypes.get":
		return found(s.types[in["zone"]+"/"+in["machineType"]], "machine type")
	case "compute.instanceTemplates.get", "compute.regionInstanceTemplates.get":
		p := s.templates[first(in["region"], "global")+"/"+in["instanceTemplate"]]
		if p == nil {
			return found[compute.InstanceTemplate](nil, "template")
		}
		return &compute.InstanceTemplate{Name: in["instanceTemplate"], Properties: p}, nil
	case "compute.disks.aggregatedList":
		return s.listDisks(query.Get("filter"), query.Get("pageToken"), stale), nil
	case "compute.instances.insert":
		return s.insert(in["zone"], query.Get("sourceInstanceTemplate"), query.Get("requestId"), strict[compute.Instance](s, body))
	}
	if strings.HasPrefix(id, "compute.instances.") {
		return s.instance(id, in, r, body)
	}
	if strings.HasPrefix(id, "compute.disk") {
		return s.disk(id, in, r, body)
	}
	if strings.HasPrefix(id, "oslogin.") {
		return s.login(id, in, body)
	}
	return s.group(id, in, r, body, stale)
}

// instance answers what is asked of one instance.
func (s *server) instance(id string, in map[string]string, r *http.Request, body []byte) (any, *refusal) {
	query := r.URL.Query()
	path := query.Get("queryPath")
	one := s.vms[in["zone"]+"/"+in["instance"]]
	if one == nil {
		return nil, &refusal{404, "notFound", "there is no instance " + in["instance"]}
	}
	ok := func() *compute.OperationErrorErrors { return nil }
	scope := "zones/" + in["zone"]
	switch id {
	case "compute.instances.get":
		i := one.Instance
		return &i, nil
	case "compute.instances.delete":
		return s.remove(one), nil
	case "compute.instances.suspend":
		one.path = []string{"SUSPENDING", "SUSPENDED"}
		return s.begin("suspend", scope, "", ok), nil
	case "compute.instances.resume":
		one.path = []string{"SUSPENDED", "PROVISIONING", "STAGING", "RUNNING"}
		return s.begin("resume", scope, "", ok), nil
	case "compute.instances.attachDisk":
		return s.attachDisk(one, query.Get("requestId"), strict[compute.AttachedDisk](s, body))
	case "compute.instances.detachDisk":
		return s.detachDisk(one, query.Get("deviceName"))
	case "compute.instances.setMetadata":
		m := strict[compute.Metadata](s, body)
		if m.Fingerprint != one.Metadata.Fingerprint {
			return nil, &refusal{412, "conditionNotMet", "the fingerprint does not match"}
		}
		one.Metadata = &compute.Metadata{Items: m.Items, Fingerprint: "YmFy"}
		return s.begin("setMetadata", scope, "", ok), nil
	case "compute.instances.getGuestAttributes":
		if path != "hostkeys/" || !s.hostKeys || item(one.Metadata.Items, "enable-guest-attributes") != "TRUE" {
			return nil, &refusal{404, "notFound", "the resource 'hostkeys/' of type 'Guest Attribute' was not found"}
		}
		return &compute.GuestAttributes{QueryPath: path, QueryValue: &compute.GuestAttributesValue{Items: []*compute.GuestAttributesEntry{
			{Namespace: "hostkeys", Key: s.hostKey.Type(), Value: base64.StdEncoding.EncodeToString(s.hostKey.Marshal())},
			{Namespace: "hostkeys", Key: "ssh-broken", Value: "?"},
		}}}, nil
	}
	s.object("nothing answers %s", id)
	return nil, &refusal{500, "internalError", id}
}

// group answers what is asked of a managed instance group.
func (s *server) group(id string, in map[string]string, r *http.Request, body []byte, stale bool) (any, *refusal) {
	name := "zones/" + in["zone"] + "/" + in["instanceGroupManager"]
	if in["region"] != "" {
		name = "regions/" + in["region"] + "/" + in["instanceGroupManager"]
	}
	if s.groups[name] == nil {
		return nil, &refusal{404, "notFound", "there is no group " + name}
	}
	query := r.URL.Query()
	kind, call := strings.Split(id, ".")[1], strings.Split(id, ".")[2]
	region := kind == "regionInstanceGroupManagers"
	switch call {
	case "get":
		return s.groups[name], nil
	case "listManagedInstances":
		s.look()
		items, next := page(s, id, s.managedList(name), query.Get("pageToken"), stale)
		if region {
			return &compute.RegionInstanceGroupManagersListInstancesResponse{ManagedInstances: items, NextPageToken: next}, nil
		}
		return &compute.InstanceGroupManagersListManagedInstancesResponse{ManagedInstances: items, NextPageToken: next}, nil
	case "createInstances":
		if region {
			return s.createInstances(name, query.Get("requestId"), strict[compute.RegionInstanceGroupManagersCreateInstancesRequest](s, body).Instances)
		}
		return s.createInstances(name, query.Get("requestId"), strict[compute.InstanceGroupManagersCreateInstancesRequest](s, body).Instances)
	case "deleteInstances":
		q := strict[compute.InstanceGroupManagersDeleteInstancesRequest](s, body) // that of regions has the same fields
		return s.act(name, "DELETING", q.Instances, q.SkipInstancesOnValidationError)
	case "suspendInstances":
		return s.act(name, "SUSPENDING", strict[compute.InstanceGroupManagersSuspendInstancesRequest](s, body).Instances, false)
	case "resumeInstances":
		return s.act(name, "RESUMING", strict[compute.InstanceGroupManagersResumeInstancesRequest](s, body).Instances, false)
	}
	s.object("nothing answers %s", id)
	return nil, &refusal{500, "internalError", id}
}

// login answers for OS Login.
func (s *server) login(id string, in map[string]string, body []byte) (any, *refusal) {
	if in["usersId"] != account {
		return nil, &refusal{403, "forbidden", "not the account of the credentials"}
	}
	if id == "oslogin.users.sshPublicKeys.delete" {
		if s.logins[in["sshPublicKeysId"]] == "" {
			return nil, &refusal{404, "notFound", "there is no such key"}
		}
		delete(s.logins, in["sshPublicKeysId"])
		return &oslogin.Empty{}, nil
	}
	key := strict[oslogin.SshPublicKey](s, body)
	hash := sha256.Sum256([]byte(key.Key))
	fingerprint := hex.EncodeToString(hash[:])
	s.logins[fingerprint] = key.Key
	keys := map[string]oslogin.SshPublicKey{}
	for f, k := range s.logins {
		keys[f] = oslogin.SshPublicKey{Key: k, Fingerprint: f, Name: "users/" + account + "/sshPublicKeys/" + f}
	}
	return &oslogin.ImportSshPublicKeyResponse{LoginProfile: &oslogin.LoginProfile{
		Name: account, SshPublicKeys: keys, PosixAccounts: []*oslogin.PosixAccount{{Username: "other"}, {Username: "sa_1234", Primary: true}},
	}}, nil
}

func found[T any](one *T, what string) (any, *refusal) {
	if one == nil {
		return nil, &refusal{404, "notFound", "there is no such " + what}
	}
	return one, nil
}

func first(all ...string) string {
	i := slices.IndexFunc(all, func(s string) bool { return s != "" })
	return all[i]
}

// page is one page of a list: two items. A stale list is what it was when it was read before.
func page[T any](s *server, key string, all []T, token string, stale bool) (items []T, next string) {
	const size = 2
	if before, ok := s.stale[key].([]T); token != "" && ok {
		all = before // all pages are of one reading
	} else if stale && ok {
		all = before
	}
	if token == "" {
		s.stale[key] = all
	}
	from, err := strconv.Atoi(strings.TrimPrefix(token, "page-"))
	if token != "" && (err != nil || from > len(all)) {
		s.object("the page token %q was not given", token)
		from = 0
	}
	to := min(from+size, len(all))
	if to < len(all) {
		next = fmt.Sprint("page-", to)
	}
	return all[from:to], next
}
