package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	azfake "github.com/Azure/azure-sdk-for-go/sdk/azcore/fake"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v6"
	computefake "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/compute/armcompute/v6/fake"
	networkfake "github.com/Azure/azure-sdk-for-go/sdk/resourcemanager/network/armnetwork/v8/fake"
)

// judge is Azure's Resource Manager over a world, and the directory that tokens come from. Requests are understood by the fake servers of Azure's own SDK: what they have no method
// for, or what their types have no field for, fails the test.
type judge struct {
	*world
	*httptest.Server
	compute     computefake.ServerFactory
	network     networkfake.ServerFactory
	credentials string // a file
	authority   string // a file with the certificate

	// fault says what goes wrong with a request of a method; the zero fault is nothing.
	fault func(method string) fault

	guard     sync.Mutex
	wrong     []string
	counts    map[string]int
	snapshots []snapshot
	lists     snapshot // those that the request is answered with
}

// fault is what goes wrong with one request.
type fault struct {
	lost   bool // the answer does not arrive
	stale  bool // a list is the one before
	status int  // it is refused
	code   string
	text   string // what the error says beside "refused on purpose"
	after  int    // seconds that a refused request has to wait
}

// snapshot are all lists, as they were at one time.
type snapshot struct {
	vms     []*armcompute.VirtualMachine
	members []*armcompute.VirtualMachineScaleSetVM
	skus    []*armcompute.ResourceSKU
}

func newJudge(t *testing.T) *judge {
	t.Helper()
	j := &judge{world: newWorld(), counts: map[string]int{}, fault: func(string) fault { return fault{} }}
	j.answers()
	j.Server = httptest.NewTLSServer(j)
	t.Cleanup(func() {
		j.Close()
		j.guard.Lock()
		defer j.guard.Unlock()
		for _, w := range j.wrong {
			t.Error("the judge:", w)
		}
	})
	folder := t.TempDir()
	write := func(name string, text []byte) string {
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	j.credentials = write("credentials.json", []byte(`{"tenantId": "a-tenant", "clientId": "a-client", "clientSecret": "a-secret", "subscriptionId": "ignored"}`))
	j.authority = write("ca.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: j.Certificate().Raw}))
	return j
}

// during does something while no request is answered.
func (j *judge) during(do func()) {
	j.guard.Lock()
	defer j.guard.Unlock()
	do()
}

func (j *judge) count(method string) (n int) {
	j.during(func() { n = j.counts[method] })
	return n
}

// object reports what the judge has found wrong. The guard is held.
func (j *judge) object(format string, args ...any) {
	j.wrong = append(j.wrong, fmt.Sprintf(format, args...))
}

const (
	compute = `(?i)^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.Compute`
	network = `(?i)^/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.Network`
	one     = `/[^/]+`
)

// routes are the methods of the SDK's clients that the plugin uses, by what they send.
var routes = []struct{ method, path, name string }{
	{"GET", compute + `/virtualMachineScaleSets` + one, "VirtualMachineScaleSetsClient.Get"},
	{"PATCH", compute + `/virtualMachineScaleSets` + one, "VirtualMachineScaleSetsClient.BeginUpdate"},
	{"POST", compute + `/virtualMachineScaleSets` + one + `/delete`, "VirtualMachineScaleSetsClient.BeginDeleteInstances"},
	{"GET", compute + `/virtualMachineScaleSets` + one + `/virtualMachines`, "VirtualMachineScaleSetVMsClient.NewListPager"},
	{"POST", compute + `/virtualMachineScaleSets` + one + `/virtualMachines` + one + `/runCommand`, "VirtualMachineScaleSetVMsClient.BeginRunCommand"},
	{"GET", compute + `/virtualMachines`, "VirtualMachinesClient.NewListPager"},
	{"GET", `(?i)^/subscriptions/[^/]+/providers/Microsoft\.Compute/virtualMachines`, "VirtualMachinesClient.NewListAllPager"},
	{"GET", compute + `/virtualMachines` + one, "VirtualMachinesClient.Get"},
	{"PUT", compute + `/virtualMachines` + one, "VirtualMachinesClient.BeginCreateOrUpdate"},
	{"DELETE", compute + `/virtualMachines` + one, "VirtualMachinesClient.BeginDelete"},
	{"POST", compute + `/virtualMachines` + one + `/runCommand`, "VirtualMachinesClient.BeginRunCommand"},
	{"GET", `(?i)^/subscriptions/[^/]+/providers/Microsoft\.Compute/skus`, "ResourceSKUsClient.NewListPager"},
	{"GET", compute + `/virtualMachineScaleSets` + one + `/virtualMachines` + one + `/networkInterfaces`, "InterfacesClient.NewListVirtualMachineScaleSetVMNetworkInterfacesPager"},
	{"GET", compute + `/virtualMachineScaleSets` + one + `/virtualMachines` + one + `/networkInterfaces` + one + `/ipconfigurations` + one + `/publicipaddresses`, "PublicIPAddressesClient.NewListVirtualMachineScaleSetVMPublicIPAddressesPager"},
	{"GET", network + `/networkInterfaces` + one, "InterfacesClient.Get"},
	{"GET", network + `/publicIPAddresses` + one, "PublicIPAddressesClient.Get"},
}

// bodies are the types of what is sent.
var bodies = map[string]func() any{
	"VirtualMachineScaleSetsClient.BeginUpdate":          func() any { return &armcompute.VirtualMachineScaleSetUpdate{} },
	"VirtualMachineScaleSetsClient.BeginDeleteInstances": func() any { return &armcompute.VirtualMachineScaleSetVMInstanceRequiredIDs{} },
	"VirtualMachineScaleSetVMsClient.BeginRunCommand":    func() any { return &armcompute.RunCommandInput{} },
	"VirtualMachinesClient.BeginRunCommand":              func() any { return &armcompute.RunCommandInput{} },
	"VirtualMachinesClient.BeginCreateOrUpdate":          func() any { return &armcompute.VirtualMachine{} },
}

// conforms reports what of a body the SDK's type does not have: it is lost on the way through that.
func conforms(method string, body []byte) error {
	make := bodies[method]
	if make == nil {
		if len(body) > 0 {
			return fmt.Errorf("%s has no body", method)
		}
		return nil
	}
	into := make()
	err := json.Unmarshal(body, into)
	var back []byte
	if err == nil {
		back, err = json.Marshal(into)
	}
	var sent, kept any
	if err == nil {
		err = errors.Join(json.Unmarshal(body, &sent), json.Unmarshal(back, &kept))
	}
	if err == nil && !reflect.DeepEqual(sent, kept) {
		err = fmt.Errorf("the body %s is not %s", body, back)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

const token = "a-token"

// ServeHTTP implements http.Handler.
func (j *judge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	j.guard.Lock()
	defer j.guard.Unlock()
	body, _ := io.ReadAll(r.Body)
	if strings.HasPrefix(r.URL.Path, "/a-tenant/") {
		j.directory(w, r, body)
		return
	}
	path, page := r.URL.Path, 0
	if before, number, ok := strings.Cut(path, "/fake_page_"); ok {
		path = before
		page, _ = strconv.Atoi(number)
	}
	name := ""
	for _, route := range routes {
		if r.Method == route.method && regexp.MustCompile(route.path+"$").MatchString(path) {
			name = route.name
		}
	}
	err := conforms(name, body)
	switch {
	case name == "":
		err = errors.New("the judge knows no such method")
	case err == nil && r.URL.Query().Get("api-version") == "":
		err = errors.New("there is no api-version")
	}
	if err != nil {
		j.object("%s %s: %v", r.Method, r.URL, err)
		deny(w, 400, "BadRequest", err.Error(), 0)
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+token {
		deny(w, 401, "InvalidAuthenticationToken", "the token is not valid", 0)
		return
	}
	j.counts[name]++
	what := j.fault(name)
	if what.status > 0 {
		deny(w, what.status, what.code, strings.TrimSpace("refused on purpose "+what.text), what.after)
		return
	}
	id := j.snapshot(r, what.stale)
	response, err := j.ask(name, r, body, page)
	if what.lost {
		panic(http.ErrAbortHandler)
	}
	var refused *azcore.ResponseError
	switch {
	case errors.As(err, &refused):
		text := "refused: " + refused.ErrorCode
		if refused.ErrorCode == notAllowed {
			text += ", it exceeds the approved Cores quota"
		}
		deny(w, refused.StatusCode, refused.ErrorCode, text, 0)
		return
	case err != nil:
		j.object("%s %s: %v", r.Method, r.URL, err)
		deny(w, 400, "BadRequest", err.Error(), 0)
		return
	}
	answer, _ := io.ReadAll(response.Body)
	var list map[string]any
	if json.Unmarshal(answer, &list) == nil && list["nextLink"] != nil {
		next, _ := url.Parse(list["nextLink"].(string))
		query := next.Query()
		query.Set("snapshot", strconv.Itoa(id))
		next.RawQuery = query.Encode()
		list["nextLink"] = next.String()
		answer, _ = json.Marshal(list)
	}
	maps.Copy(w.Header(), response.Header)
	w.Header().Del("Content-Length")
	w.WriteHeader(response.StatusCode)
	_, _ = w.Write(answer)
}

func deny(w http.ResponseWriter, status int, code, message string, after int) {
	if after > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(after))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error": {"code": %q, "message": %q}}`, code, message)
}

// directory is what gives tokens.
func (j *judge) directory(w http.ResponseWriter, r *http.Request, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(r.URL.Path, "/.well-known/openid-configuration") {
		fmt.Fprintf(w, `{"token_endpoint": "%[1]s/a-tenant/oauth2/v2.0/token", "authorization_endpoint": "%[1]s/a-tenant/oauth2/v2.0/authorize", "issuer": "%[1]s/a-tenant/v2.0"}`, j.URL)
		return
	}
	form, _ := url.ParseQuery(string(body))
	if form.Get("client_secret") != "a-secret" || !strings.HasPrefix(form.Get("scope"), j.URL) {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error": "invalid_client", "error_description": "AADSTS7000215: Invalid client secret provided."}`)
		return
	}
	fmt.Fprintf(w, `{"token_type": "Bearer", "expires_in": 3600, "access_token": %q}`, token)
}

// snapshot chooses the lists that a request is answered with: those of the first page, for one that asks for another page.
func (j *judge) snapshot(r *http.Request, stale bool) int {
	if text := r.URL.Query().Get("snapshot"); text != "" {
		id, err := strconv.Atoi(text)
		if err != nil || id >= len(j.snapshots) {
			j.object("the link of a next page was changed: %s", r.URL)
			return 0
		}
		j.lists = j.snapshots[id]
		return id
	}
	if r.Method == http.MethodGet {
		j.look()
	}
	if stale && len(j.snapshots) > 0 {
		j.lists = j.snapshots[len(j.snapshots)-1]
		return len(j.snapshots) - 1
	}
	now := snapshot{skus: skus()}
	for _, name := range slices.Sorted(maps.Keys(j.vms)) {
		now.vms = append(now.vms, copyOf(j.vms[name]))
	}
	for _, id := range slices.Sorted(maps.Keys(j.members)) {
		now.members = append(now.members, copyOf(j.members[id]))
	}
	j.lists = now
	if r.Method == http.MethodGet {
		j.snapshots = append(j.snapshots, now)
	}
	return len(j.snapshots) - 1
}

func copyOf[T any](v *T) *T {
	out := new(T)
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, out)
	}
	if err != nil {
		panic(err)
	}
	return out
}

// ask asks the SDK's fake servers.
func (j *judge) ask(name string, r *http.Request, body []byte, page int) (response *http.Response, err error) {
	client, _, _ := strings.Cut(name, ".")
	do := computefake.NewServerFactoryTransport(&j.compute).Do
	if client == "InterfacesClient" || client == "PublicIPAddressesClient" {
		do = networkfake.NewServerFactoryTransport(&j.network).Do
	}
	for range page + 1 {
		q := r.Clone(context.WithValue(r.Context(), runtime.CtxAPINameKey{}, name))
		q.URL.Scheme, q.URL.Host, q.Body = "https", r.Host, io.NopCloser(bytes.NewReader(body))
		q.URL.Path, _, _ = strings.Cut(q.URL.Path, "/fake_page_")
		if response, err = do(q); err != nil {
			return nil, err
		}
	}
	return response, nil
}

// pageSize is how many there are on a page of a list.
const pageSize = 2

// paged adds pages of a list.
func paged[T, R any](pages *azfake.PagerResponder[R], list []T, page func([]T) R) {
	if len(list) == 0 {
		pages.AddPage(http.StatusOK, page([]T{}), nil)
	}
	for chunk := range slices.Chunk(list, pageSize) {
		pages.AddPage(http.StatusOK, page(chunk), nil)
	}
}
