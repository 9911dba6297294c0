package status_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/manager"
	"github.com/rungci/rung/manager/disk"
	"github.com/rungci/rung/manager/gitlab"
	"github.com/rungci/rung/manager/status"
	"github.com/rungci/rung/manager/supply"
	"github.com/rungci/rung/steps/event"
)

// fixed is a manager whose state is known.
type fixed manager.State

func (f *fixed) State() manager.State { return manager.State(*f) }

var entry = manager.Entry{Name: `a "quoted" name`, Token: "abcdefgh", URL: "https://gitlab.example.com", SystemID: "s_0123456789ab", Executor: "shell"}

func running(job int64) manager.Running {
	return manager.Running{
		Job: job, Entry: entry, Level: executor.None, Began: time.Now(), URL: "https://gitlab.example.com/g/p/-/jobs/7",
		Identity: event.Identity{Project: "group/<b>project</b>", Job: "build"},
	}
}

// board has a manager in which job 1 has failed, job 2 has succeeded, and job 3 runs.
func board(t *testing.T, o status.Options) *status.Board {
	t.Helper()
	b := status.New(o)
	b.Show(&fixed{
		Concurrent: 4, Busy: 2, Jobs: []manager.Running{running(3)},
		Entries: []manager.EntryStatus{{Entry: entry, Levels: []executor.Level{executor.None}, Limit: 2, Running: 1, Contact: time.Now()}},
	})
	b.Attempted(entry, gitlab.Attempt{Method: "POST", Endpoint: "/api/v4/jobs/request", Status: 201, Duration: time.Second})
	b.Attempted(entry, gitlab.Attempt{Method: "PATCH", Endpoint: "/api/v4/jobs/{id}/trace", Repeated: true})
	trace := filepath.Join(t.TempDir(), "trace.json")
	if err := os.WriteFile(trace, []byte(`{"trace": true}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for i, end := range []manager.End{
		{State: gitlab.Failed, FailureReason: "script_failure", ExitCode: 42, Error: "exit code 42", Took: time.Minute},
		{State: gitlab.Success, Took: time.Second, Trace: trace},
	} {
		job := running(int64(i + 1))
		b.Began(job, manager.Waited{InQueue: 2 * time.Second, Size: 5})
		b.Wrote(job, []byte("section_start:1:script\r\x1b[0Khello "))
		b.Wrote(job, []byte("<script>\n"))
		b.Ended(job, end)
	}
	b.Began(running(3), manager.Waited{Size: 5, Running: "2", Late: true})
	b.Wrote(running(3), []byte(strings.Repeat("x", 3*status.MaxTail)+"the end\n"))
	return b
}

// get asks a handler, and returns the status and the text.
func get(t *testing.T, h http.Handler, path string) (int, string) {
	t.Helper()
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
	return answer.Code, answer.Body.String()
}

func TestMetricsHaveTheNamesOfTheExistingRunner(t *testing.T) {
	t.Parallel()
	b := board(t, status.Options{Version: "1"})
	slog.New(b.Count(slog.NewTextHandler(io.Discard, nil))).With("a", 1).Error("something")
	b.Loaded(nil)
	_, text := get(t, b.Public(), "/metrics")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{
		"version_info": 1, "concurrent": 4, "limit": 2, "jobs": 1, "jobs_total": 3, "failed_jobs_total": 1, "errors_total": 1, "worker_slots_number": 4,
		"configuration_loaded_total": 1, "configuration_loading_error_total": 0, "request_concurrency": 0, "api_request_statuses_total": 2,
		"api_request_retries_total": 1, "job_queue_size": 5, "acceptable_job_queuing_duration_exceeded_total": 1,
	} {
		got := 0.0
		family := families["gitlab_runner_"+name]
		if family == nil {
			t.Errorf("there is no %s", name)
			continue
		}
		for _, m := range family.GetMetric() {
			got += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
		if got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for name, want := range map[string]uint64{"job_duration_seconds": 2, "job_queue_duration_seconds": 3, "api_request_duration_seconds": 2} {
		got := uint64(0)
		for _, m := range families["gitlab_runner_"+name].GetMetric() {
			got += m.GetHistogram().GetSampleCount()
		}
		if got != want {
			t.Errorf("%s counts %d, want %d", name, got, want)
		}
	}
	for _, want := range []string{
		`gitlab_runner_failed_jobs_total{failure_reason="script_failure",mode="steps",runner="abcdefgh",runner_name="a \"quoted\" name",system_id="s_0123456789ab"} 1`,
		`gitlab_runner_job_execution_mode_total{mode="steps",executor="shell"} 3`,
		`gitlab_runner_jobs{state="running",level="none",runner="abcdefgh",runner_name="a \"quoted\" name",system_id="s_0123456789ab"} 1`,
		`gitlab_runner_api_request_statuses_total{runner="abcdefgh",system_id="s_0123456789ab",endpoint="request_job",status="201",method="post"} 1`,
		`endpoint="patch_trace",status="-100",method="patch"} 1`,
		`gitlab_runner_job_queue_duration_seconds_count{runner="abcdefgh",runner_name="a \"quoted\" name",system_id="s_0123456789ab",project_jobs_running="2"} 1`,
		`gitlab_runner_request_concurrency{runner="abcdefgh",system_id="s_0123456789ab"} 0`,
		`gitlab_runner_jobs{state="idle",runner="abcdefgh",runner_name="a \"quoted\" name",system_id="s_0123456789ab"} 0`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %s:\n%s", want, text)
		}
	}
}

func TestMetricsOfTheDisk(t *testing.T) {
	t.Parallel()
	b := status.New(status.Options{})
	b.Show(&fixed{Disk: &disk.Status{
		Budget: 100, KeepFree: 7, Used: map[string]int64{"image": 60, "cache": 50}, Free: map[string]int64{"/var/lib/rung": 5},
		Removed: map[string]disk.Removed{"image": {Things: 2, Bytes: 30}}, Waiting: "full",
	}})
	_, text := get(t, b.Public(), "/metrics")
	parser := expfmt.NewTextParser(model.UTF8Validation)
	if _, err := parser.TextToMetricFamilies(strings.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"rung_disk_budget_bytes 100", "rung_disk_keep_free_bytes 7", `rung_disk_used_bytes{kind="image"} 60`, `rung_disk_free_bytes{folder="/var/lib/rung"} 5`,
		`rung_disk_removed_total{kind="image"} 2`, `rung_disk_removed_total{kind="cache"} 0`, `rung_disk_removed_bytes_total{kind="image"} 30`, "rung_disk_waiting 1",
	} {
		if !strings.Contains(text, "\n"+want+"\n") {
			t.Errorf("there is no line %s in\n%s", want, text)
		}
	}
	b.Show(&fixed{})
	if _, text := get(t, b.Public(), "/metrics"); strings.Contains(text, "rung_disk") {
		t.Error("without a budget there are metrics of the disk")
	}
}

func TestAnAdoptedJobIsNotCountedTwice(t *testing.T) {
	t.Parallel()
	b := status.New(status.Options{})
	job := running(1)
	job.Adopted = true
	b.Began(job, manager.Waited{})
	_, text := get(t, b.Public(), "/metrics")
	if strings.Contains(text, "gitlab_runner_jobs_total{") || !strings.Contains(text, "rung_jobs_adopted_total{") {
		t.Error(text)
	}
}

func TestHealthSaysWhetherJobsAreTaken(t *testing.T) {
	t.Parallel()
	healthy := manager.EntryStatus{Entry: entry, Contact: time.Now()}
	sick := manager.EntryStatus{Entry: entry, Trouble: "GitLab answered 403", Contact: time.Now()}
	for name, c := range map[string]struct {
		state manager.State
		code  int
		text  string
	}{
		"before GitLab has answered":    {manager.State{}, 503, "no runner has reached GitLab yet"},
		"one runner of two is enough":   {manager.State{Entries: []manager.EntryStatus{sick, healthy}}, 200, "ok"},
		"GitLab refuses the runner":     {manager.State{Entries: []manager.EntryStatus{sick}}, 503, "does not reach GitLab"},
		"a manager that ends":           {manager.State{Draining: true, Entries: []manager.EntryStatus{healthy}}, 503, "no more jobs are taken"},
		"a disk without room":           {manager.State{Disk: &disk.Status{Waiting: "full"}, Entries: []manager.EntryStatus{healthy}}, 503, "there is no room on a disk"},
		"a runner that rests after all": {manager.State{Entries: []manager.EntryStatus{{Contact: time.Now(), Resting: time.Now().Add(time.Hour)}}}, 503, ""},
	} {
		b := status.New(status.Options{})
		b.Show((*fixed)(&c.state))
		if code, text := get(t, b.Public(), "/health/ready"); code != c.code || !strings.Contains(text, c.text) {
			t.Errorf("%s: %d %s", name, code, text)
		}
		if code, _ := get(t, b.Public(), "/health"); code != http.StatusOK {
			t.Errorf("%s: /health is %d", name, code)
		}
	}
}

func TestAManagerThatWaits(t *testing.T) {
	t.Parallel()
	b := board(t, status.Options{})
	for _, c := range []struct {
		waiting *status.Waiting
		code    int
		text    string
	}{
		{&status.Waiting{Manager: "of /state on one", Until: time.Now()}, 200, "the manager of /state on one holds the lease until "},
		{&status.Waiting{Trouble: "no route to host"}, 503, "cannot be read: no route to host"},
		{nil, 200, ""},
	} {
		b.Wait(c.waiting)
		if code, text := get(t, b.Public(), "/health/ready"); code != c.code {
			t.Errorf("%v: %d %s", c.waiting, code, text)
		}
		_, text := get(t, b.Private(func() string { return "" }), "/status")
		var s status.Status
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		if (s.Waiting == nil) != (c.waiting == nil) || s.Waiting != nil && !strings.Contains(s.Waiting.String(), c.text) {
			t.Errorf("%v: %v", c.waiting, s.Waiting)
		}
	}
}

func TestTheListOfJobs(t *testing.T) {
	t.Parallel()
	_, text := get(t, board(t, status.Options{}).Public(), "/debug/jobs/list")
	if !strings.HasPrefix(text, `url="https://gitlab.example.com/g/p/-/jobs/7" id=3 status=running duration=`) {
		t.Error(text)
	}
}

func TestLogsNeedTheKey(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(board(t, status.Options{Key: "open sesame"}).Public())
	t.Cleanup(server.Close)
	jar, _ := cookiejar.New(nil)
	client := &http.Client{Jar: jar}
	read := func(path string) (int, string) {
		answer, err := client.Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		if answer.Request.URL.Query().Has("key") && answer.StatusCode == http.StatusOK {
			t.Error("the key stays in the address")
		}
		return answer.StatusCode, string(text)
	}
	for _, path := range []string{"/", "/jobs/1", "/jobs/1/log", "/jobs/2/trace", "/?key=wrong", "/?key=", "/status"} {
		if code, text := read(path); code != http.StatusForbidden || !strings.Contains(text, "rung status") {
			t.Errorf("%s without the key: %d %s", path, code, text)
		}
	}
	if code, text := read("/?key=open+sesame"); code != http.StatusOK || !strings.Contains(text, "build") {
		t.Errorf("with the key: %d %s", code, text)
	}
	if code, text := read("/jobs/1"); code != http.StatusOK || !strings.Contains(text, "hello &lt;script&gt;") || strings.Contains(text, "section_start") {
		t.Errorf("the page of a job: %d %s", code, text)
	}
	if _, text := read("/jobs/2/trace"); text != `{"trace": true}` {
		t.Error("the trace:", text)
	}
	if code, _ := read("/jobs/1/trace"); code != http.StatusNotFound {
		t.Error("a job without a trace:", code)
	}
	if code, _ := read("/jobs/99"); code != http.StatusNotFound {
		t.Error("a job that is not there:", code)
	}
	if code, _ := read("/status"); code != http.StatusNotFound {
		t.Error("what is for the socket alone:", code)
	}
}

func TestThePageOfAJobShowsWhatTurnsOrHidesText(t *testing.T) {
	t.Parallel()
	b := status.New(status.Options{})
	b.Began(running(1), manager.Waited{})
	b.Wrote(running(1), []byte("good \u202eevil\u200b\n"))
	b.Ended(running(1), manager.End{State: gitlab.Success})
	if _, text := get(t, b.Private(func() string { return "" }), "/jobs/1"); !strings.Contains(text, `good \u202eevil\u200b`) {
		t.Error(text)
	}
}

func TestWithoutAKeyNobodySeesLogs(t *testing.T) {
	t.Parallel()
	if code, _ := get(t, board(t, status.Options{}).Public(), "/?key="); code != http.StatusForbidden {
		t.Error(code)
	}
}

func TestTheSocketTellsEverything(t *testing.T) {
	t.Parallel()
	h := board(t, status.Options{Version: "1"}).Private(func() string { return "http://here" })
	_, text := get(t, h, "/status")
	var s status.Status
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	if s.Page != "http://here" || len(s.Jobs) != 1 || len(s.Last) != 2 || s.Last[0].Running.Job != 2 || s.Last[1].End.ExitCode != 42 || s.Entries[0].Limit != 2 {
		t.Error(text)
	}
	if code, _ := get(t, h, "/"); code != http.StatusOK {
		t.Error(code)
	}
}

func TestOnlyTheEndOfALogIsKept(t *testing.T) {
	t.Parallel()
	_, text := get(t, board(t, status.Options{}).Private(func() string { return "" }), "/jobs/3/log")
	if len(text) != status.MaxTail || !strings.HasSuffix(text, "xthe end\n") {
		t.Errorf("%d bytes, ending in %q", len(text), text[max(0, len(text)-20):])
	}
}

func TestJobsThatEndedAreForgottenInTime(t *testing.T) {
	t.Parallel()
	b := status.New(status.Options{})
	for i := range 3 * status.MaxEnded {
		b.Ended(running(int64(i)), manager.End{State: gitlab.Success})
	}
	if jobs := b.Jobs(); len(jobs) != status.MaxEnded || jobs[0].Running.Job != 3*status.MaxEnded-1 {
		t.Errorf("%d jobs", len(jobs))
	}
}

// TestTwoGitLabsMayHaveTheSameNumber keeps their logs apart.
func TestTwoGitLabsMayHaveTheSameNumber(t *testing.T) {
	t.Parallel()
	b := status.New(status.Options{})
	for i := range 2 {
		job := running(1)
		job.Entry.URL, job.Entry.Token = fmt.Sprint("https://", i), fmt.Sprint("token", i)
		b.Began(job, manager.Waited{})
		b.Wrote(job, []byte(job.Entry.URL))
		b.Ended(job, manager.End{State: gitlab.Success})
	}
	h := b.Private(func() string { return "" })
	_, overview := get(t, h, "/")
	for i := range 2 {
		path := fmt.Sprint("/jobs/1?runner=token", i)
		if !strings.Contains(overview, `href="`+path+`"`) {
			t.Errorf("%s is not in %s", path, overview)
		}
		if _, text := get(t, h, path); !strings.Contains(text, fmt.Sprint("<pre>https://", i)) {
			t.Error(text)
		}
		if _, text := get(t, h, fmt.Sprint("/jobs/1/log?runner=token", i)); text != fmt.Sprint("https://", i) {
			t.Error(text)
		}
	}
}

func TestMachinesOfProvidersAreShown(t *testing.T) {
	t.Parallel()
	b := status.New(status.Options{})
	job := running(1)
	job.Machine = "build-1"
	other := manager.Entry{Name: "here", Token: "other"}
	b.Show(&fixed{Jobs: []manager.Running{job}, Entries: []manager.EntryStatus{
		{Entry: entry, Machines: &supply.Status{Free: 0, Reason: "all slots are taken", Reserved: 1, Used: 3}}, {Entry: other},
	}})
	_, text := get(t, b.Public(), "/metrics")
	for name, want := range map[string]string{"free": "0", "reserved": "1", "used": "3"} {
		line := fmt.Sprintf(`rung_machines_%s{runner="abcdefgh",runner_name="a \"quoted\" name",system_id="s_0123456789ab"} %s`, name, want)
		if !strings.Contains(text, line) || strings.Contains(text, `rung_machines_`+name+`{runner="other"`) {
			t.Errorf("want %s:\n%s", line, text)
		}
	}
	h := b.Private(func() string { return "" })
	if _, text := get(t, h, "/"); !strings.Contains(text, "3 used, 1 reserved, 0 free") || !strings.Contains(text, "all slots are taken") || !strings.Contains(text, "none on build-1") {
		t.Error(text)
	}
	if _, text := get(t, h, "/jobs/1"); !strings.Contains(text, "none on build-1") {
		t.Error(text)
	}
}

func TestAConfigurationThatWasRefusedIsShownUntilOneCanBeUsed(t *testing.T) {
	t.Parallel()
	b := board(t, status.Options{})
	for _, refused := range []bool{true, false} {
		var err error
		if refused {
			err = errors.New("config.toml:3:1: it is <wrong>")
		}
		b.Loaded(err)
		for path, want := range map[string]string{"/": "config.toml:3:1: it is &lt;wrong&gt;", "/status": `"configuration_refused":{"error":"config.toml:3:1: it is`} {
			if _, text := get(t, b.Private(func() string { return "" }), path); strings.Contains(text, want) != refused {
				t.Errorf("refused: %v\n%s", refused, text)
			}
		}
	}
}
