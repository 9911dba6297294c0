package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// cloud is an account of moto behind a proxy, which puts faults between a client and the server, and has what moto lacks: tokens of requests, marks of spot requests,
// lifecycle hooks, consoles, passwords, and what EC2 refuses of volumes (cloudvolumes_test.go).
type cloud struct {
	t       testing.TB
	server  *httptest.Server
	moto    *url.URL
	account string
	api     *api // without faults, through another proxy

	mu     sync.Mutex
	calls  []apiCall
	faults []*fault
	last   map[string]answer   // the last true answer by operation
	tokens map[string]tokenUse // of CreateFleet and CreateVolume

	marked    []string          // machines whose spot requests are marked for interruption
	console   string            // of all machines; empty: moto's
	password  string            // of all Windows machines, encrypted
	completed []string          // lifecycle actions: hook, machine, result
	waiting   map[string]string // lifecycle states in place of moto's, by machine
	health    map[string]string // likewise
}

type apiCall struct {
	service, operation string
	form               url.Values
	json               map[string]any
}

type answer struct {
	status int
	header http.Header
	body   []byte
}

type tokenUse struct {
	form   string
	answer answer
}

// fault is what happens to the next calls of an operation.
type fault struct {
	operation string
	times     int
	do        func(c *cloud, call apiCall, forward func() answer) (answer, bool)
}

var accounts atomic.Int64

// newCloud is an account with nothing in it but the default network, and a launch template "runner".
func newCloud(t testing.TB, moto *url.URL) *cloud {
	t.Helper()
	c := &cloud{t: t, moto: moto, account: fmt.Sprintf("%012d", accounts.Add(1)), last: map[string]answer{}, tokens: map[string]tokenUse{}, waiting: map[string]string{}, health: map[string]string{}}
	c.server = httptest.NewServer(c)
	t.Cleanup(c.server.Close)
	if moto == nil {
		return c
	}
	plain := &cloud{t: t, moto: moto, account: c.account, last: map[string]answer{}, tokens: map[string]tokenUse{}}
	plain.server = httptest.NewServer(plain)
	t.Cleanup(plain.server.Close)
	var err error
	if c.api, err = openAPI(t.Context(), plain.options(t)); err != nil {
		t.Fatal(err)
	}
	images, err := c.api.ec2.DescribeImages(t.Context(), &ec2.DescribeImagesInput{Owners: []string{"amazon"}})
	if err != nil || len(images.Images) == 0 {
		t.Fatal(err)
	}
	_, err = c.api.ec2.CreateLaunchTemplate(t.Context(), &ec2.CreateLaunchTemplateInput{LaunchTemplateName: aws.String("runner"), LaunchTemplateData: &types.RequestLaunchTemplateData{
		ImageId: images.Images[0].ImageId, InstanceType: types.InstanceTypeT3Micro,
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// options reach the cloud as AWS's own programs would.
func (c *cloud) options(t testing.TB) Options {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	return Options{
		Region: "eu-west-1", Profile: "ci", RequestsPerSecond: 1000,
		ConfigFile:      write("config", "[profile ci]\nendpoint_url = "+c.server.URL+"\n"),
		CredentialsFile: write("credentials", "[ci]\naws_access_key_id = AKIATEST\naws_secret_access_key = secret\n"),
	}
}

// subnets are those of the default network, by zone.
func (c *cloud) subnets(t testing.TB) (ids []string) {
	t.Helper()
	out, err := c.api.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(out.Subnets, func(a, b types.Subnet) int {
		return strings.Compare(aws.ToString(a.AvailabilityZone), aws.ToString(b.AvailabilityZone))
	})
	for _, s := range out.Subnets {
		ids = append(ids, aws.ToString(s.SubnetId))
	}
	return ids
}

// fault makes something happen to the next calls of an operation.
func (c *cloud) fault(operation string, times int, do func(c *cloud, call apiCall, forward func() answer) (answer, bool)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, &fault{operation, times, do})
}

// The faults. The second result is false where the connection is closed in place of an answer.

func refuse(status int, code string) func(*cloud, apiCall, func() answer) (answer, bool) {
	return func(_ *cloud, call apiCall, _ func() answer) (answer, bool) {
		return refused(call, status, code, "refused by the test"), true
	}
}

// drop closes the connection before anything happens, and lose after it.
func drop(*cloud, apiCall, func() answer) (answer, bool) { return answer{}, false }

func lose(_ *cloud, _ apiCall, forward func() answer) (answer, bool) {
	forward()
	return answer{}, false
}

// stale repeats the answer of before.
func stale(c *cloud, call apiCall, forward func() answer) (answer, bool) {
	c.mu.Lock()
	old, ok := c.last[call.operation]
	c.mu.Unlock()
	if !ok {
		return forward(), true
	}
	return old, true
}

// reply answers with a text.
func reply(body string) func(*cloud, apiCall, func() answer) (answer, bool) {
	return func(*cloud, apiCall, func() answer) (answer, bool) { return xmlAnswer(http.StatusOK, body), true }
}

func xmlAnswer(status int, body string) answer {
	return answer{status, http.Header{"Content-Type": {"text/xml"}}, []byte(body)}
}

// refused is an error as the service of a call has it.
func refused(call apiCall, status int, code, message string) answer {
	switch call.service {
	case "ec2":
		return xmlAnswer(status, fmt.Sprintf("<Response><Errors><Error><Code>%s</Code><Message>%s</Message></Error></Errors><RequestID>test</RequestID></Response>", code, message))
	case "autoscaling", "sts":
		return xmlAnswer(status, fmt.Sprintf("<ErrorResponse><Error><Type>Sender</Type><Code>%s</Code><Message>%s</Message></Error><RequestId>test</RequestId></ErrorResponse>", code, message))
	}
	body, _ := json.Marshal(map[string]string{"__type": code, "message": message})
	return answer{status, http.Header{"Content-Type": {"application/x-amz-json-1.1"}, "X-Amzn-Errortype": {code}}, body}
}

// count is how often an operation was called.
func (c *cloud) count(operation string) int { return len(c.of(operation)) }

// of are the calls of an operation.
func (c *cloud) of(operation string) (out []apiCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.calls {
		if one.operation == operation {
			out = append(out, one)
		}
	}
	return out
}

// ServeHTTP implements http.Handler.
func (c *cloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	call := parse(r, body)
	c.mu.Lock()
	c.calls = append(c.calls, call)
	var now *fault
	for _, f := range c.faults {
		if now == nil && f.operation == call.operation && f.times > 0 {
			now = f
			f.times--
		}
	}
	c.mu.Unlock()
	forward := func() answer { return c.truth(r, call, body) }
	var a answer
	ok := true
	if now == nil {
		a = forward()
	} else {
		a, ok = now.do(c, call, forward)
	}
	if !ok {
		panic(http.ErrAbortHandler)
	}
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body)
}

// parse finds out which call it is.
func parse(r *http.Request, body []byte) apiCall {
	var call apiCall
	if parts := strings.Split(r.Header.Get("Authorization"), "/"); len(parts) > 3 {
		call.service = parts[3]
	}
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		call.operation = target[strings.LastIndexByte(target, '.')+1:]
		_ = json.Unmarshal(body, &call.json)
		return call
	}
	call.form, _ = url.ParseQuery(string(body))
	call.operation = call.form.Get("Action")
	return call
}

// truth is what the cloud answers.
func (c *cloud) truth(r *http.Request, call apiCall, body []byte) answer {
	if strings.HasSuffix(call.operation, "tachVolume") {
		volumesOneByOne.Lock()
		defer volumesOneByOne.Unlock()
	}
	if own, ok := c.volumeCall(call); ok {
		return own
	}
	if own, ok := c.lacks(call); ok {
		return own
	}
	a := c.forward(r, body)
	switch call.operation {
	case "DescribeAutoScalingGroups":
		a.body = c.lifecycle(a.body)
	case "TerminateInstanceInAutoScalingGroup":
		if a.status == http.StatusInternalServerError { // moto fails for a machine that the group has not
			a = refused(call, http.StatusBadRequest, "ValidationError", "Instance Id not found - No managed instance found for instance ID: "+call.form.Get("InstanceId"))
		}
	case "CreateFleet", "CreateVolume":
		c.mu.Lock()
		c.tokens[call.form.Get("ClientToken")] = tokenUse{call.form.Encode(), a}
		c.mu.Unlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last[call.operation] = a
	return a
}

// oneByOne is held while moto answers: its threads change lists and counts under each other.
var oneByOne sync.Mutex

// forward is the answer of moto.
func (c *cloud) forward(r *http.Request, body []byte) answer {
	if !strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".ReceiveMessage") { // which waits
		oneByOne.Lock()
		defer oneByOne.Unlock()
	}
	to := *c.moto
	to.Path = r.URL.Path
	request, err := http.NewRequestWithContext(r.Context(), r.Method, to.String(), bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	request.Header = r.Header.Clone()
	request.Header.Set("X-Moto-Account-Id", c.account)
	request.Host = r.Host
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	return answer{response.StatusCode, http.Header{"Content-Type": response.Header["Content-Type"]}, text}
}

// lacks answers calls that moto does not know, and those whose answers it makes up.
func (c *cloud) lacks(call apiCall) (answer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch call.operation {
	case "CreateFleet", "CreateVolume":
		// EC2 answers a token that it knows with what it did then, and refuses another call with it.
		use, known := c.tokens[call.form.Get("ClientToken")]
		switch {
		case call.form.Get("ClientToken") == "":
			return refused(call, http.StatusBadRequest, "MissingParameter", "there is no ClientToken"), true
		case known && use.form != call.form.Encode():
			return refused(call, http.StatusBadRequest, "IdempotentParameterMismatch", "the token is another call's"), true
		case known:
			return use.answer, true
		}
	case "DescribeSpotInstanceRequests":
		if call.form.Get("Filter.1.Name") != "status-code" || call.form.Get("Filter.1.Value.1") != "marked-for-termination" || call.form.Get("Filter.1.Value.2") != "marked-for-stop" {
			return refused(call, http.StatusBadRequest, "InvalidParameterValue", "the filter is "+call.form.Encode()), true
		}
		var items strings.Builder
		for _, id := range c.marked {
			fmt.Fprintf(&items, "<item><instanceId>%s</instanceId><status><code>marked-for-termination</code><updateTime>2026-03-02T09:14:03.000Z</updateTime></status></item>", id)
		}
		return xmlAnswer(http.StatusOK, "<DescribeSpotInstanceRequestsResponse><spotInstanceRequestSet>"+items.String()+"</spotInstanceRequestSet></DescribeSpotInstanceRequestsResponse>"), true
	case "CompleteLifecycleAction":
		for _, field := range []string{"AutoScalingGroupName", "LifecycleHookName", "InstanceId", "LifecycleActionResult"} {
			if call.form.Get(field) == "" {
				return refused(call, http.StatusBadRequest, "ValidationError", "there is no "+field), true
			}
		}
		c.completed = append(c.completed, strings.Join([]string{call.form.Get("LifecycleHookName"), call.form.Get("InstanceId"), call.form.Get("LifecycleActionResult")}, " "))
		return xmlAnswer(http.StatusOK, "<CompleteLifecycleActionResponse><CompleteLifecycleActionResult/></CompleteLifecycleActionResponse>"), true
	case "GetConsoleOutput":
		if c.console != "" {
			return xmlAnswer(http.StatusOK, "<GetConsoleOutputResponse><instanceId>"+call.form.Get("InstanceId")+"</instanceId><output>"+c.console+"</output></GetConsoleOutputResponse>"), true
		}
	case "GetPasswordData":
		return xmlAnswer(http.StatusOK, "<GetPasswordDataResponse><instanceId>"+call.form.Get("InstanceId")+"</instanceId><passwordData>"+c.password+"</passwordData></GetPasswordDataResponse>"), true
	case "SendSSHPublicKey":
		for _, field := range []string{"InstanceId", "InstanceOSUser", "SSHPublicKey"} {
			if text, ok := call.json[field].(string); !ok || text == "" {
				return refused(call, http.StatusBadRequest, "InvalidArgsException", "there is no "+field), true
			}
		}
	}
	return answer{}, false
}

// lifecycle puts the states of the test into the description of a group.
func (c *cloud) lifecycle(body []byte) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting)+len(c.health) == 0 {
		return body
	}
	text := string(body)
	for id, state := range c.waiting {
		text = inMember(text, id, "LifecycleState", state)
	}
	for id, state := range c.health {
		text = inMember(text, id, "HealthStatus", state)
	}
	return []byte(text)
}

// inMember sets an element of the member of a list that has an instance.
func inMember(text, id, element, value string) string {
	members := strings.SplitAfter(text, "</member>")
	for i, m := range members {
		if !strings.Contains(m, "<InstanceId>"+id+"</InstanceId>") {
			continue
		}
		before, rest, ok := strings.Cut(m, "<"+element+">")
		_, after, closed := strings.Cut(rest, "</"+element+">")
		if ok && closed {
			var escaped bytes.Buffer
			_ = xml.EscapeText(&escaped, []byte(value))
			members[i] = before + "<" + element + ">" + escaped.String() + "</" + element + ">" + after
		}
	}
	return strings.Join(members, "")
}
