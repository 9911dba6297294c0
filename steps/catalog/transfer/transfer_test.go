package transfer

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rungci/rung/internal/mask/masktest"
)

// quick is a client that waits for nothing, and notes how long it would have waited.
func quick(waits *[]time.Duration) *Client {
	return &Client{Wait: func(_ context.Context, d time.Duration) error {
		if waits != nil {
			*waits = append(*waits, d)
		}
		return nil
	}}
}

func TestRequestsAreRepeatedWhereThatCanHelp(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		statuses []int
		client   Client
		once     bool
		want     int // the number of requests
		ok       bool
	}{
		{name: "a success is not repeated", statuses: []int{200}, want: 1, ok: true},
		{name: "a broken server is asked again", statuses: []int{500, 502, 200}, want: 3, ok: true},
		{name: "too many requests are asked again", statuses: []int{429, 200}, want: 2, ok: true},
		{name: "attempts are bounded", statuses: []int{500, 500, 500, 200}, want: 3},
		{name: "a busy server has attempts of its own", statuses: []int{503, 503, 503, 503, 503, 200}, client: Client{BusyAttempts: 6}, want: 6, ok: true},
		{name: "a refusal is not repeated", statuses: []int{403, 200}, want: 1},
		{name: "a file that is too large is not repeated", statuses: []int{413, 200}, want: 1},
		{name: "what must happen once is not repeated when it may have happened", statuses: []int{500, 200}, once: true, want: 1},
		{name: "what must happen once is repeated when the server did nothing", statuses: []int{503, 200}, once: true, want: 2, ok: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if string(body) != "content" || r.ContentLength != 7 {
					t.Errorf("the server got %q, announced as %d bytes", body, r.ContentLength)
				}
				w.WriteHeader(tc.statuses[requests.Add(1)-1])
			}))
			defer server.Close()
			client := tc.client
			client.Wait = quick(nil).Wait
			resp, err := client.Do(t.Context(), Request{
				Method: http.MethodPut, URL: server.URL, Size: 7, Once: tc.once,
				Body: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("content")), nil },
			})
			if resp != nil {
				resp.Body.Close()
			}
			if (err == nil) != tc.ok || int(requests.Load()) != tc.want {
				t.Errorf("got %v after %d requests, want %d", err, requests.Load(), tc.want)
			}
		})
	}
}

func TestServersAreGivenTheTimeTheyAskFor(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch requests.Add(1) {
		case 1:
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(503)
		case 2:
			w.Header().Set("Retry-After", "99999999999")
			w.WriteHeader(429)
		}
	}))
	defer server.Close()
	var waits []time.Duration
	resp, err := quick(&waits).Do(t.Context(), Request{URL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if len(waits) != 2 || waits[0] != 7*time.Second || waits[1] > MaxWait {
		t.Errorf("waited %v", waits)
	}
}

func TestSecretsStayWithTheServerTheyAreFor(t *testing.T) {
	t.Parallel()
	var got http.Header
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Clone() }))
	defer other.Close()
	var same http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, other.URL+"/?signature=s3cret", http.StatusTemporaryRedirect)
		case "/here":
			http.Redirect(w, r, "/there", http.StatusTemporaryRedirect)
		case "/there":
			same = r.Header.Clone()
		case "/moved":
			http.Redirect(w, r, "/there", http.StatusFound)
		}
	}))
	defer server.Close()
	do := func(method, path string) error {
		resp, err := quick(nil).Do(t.Context(), Request{
			Method: method, URL: server.URL + path + "?token=s3cret", Secret: []string{"Job-Token"},
			Header: http.Header{"Job-Token": {"t0ken"}, "Authorization": {"t0ken"}, "Accept": {"*/*"}},
		})
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	if err := do("GET", "/away"); err != nil {
		t.Fatal(err)
	}
	for name, values := range got {
		if strings.Contains(strings.Join(values, ""), "t0ken") || strings.Contains(strings.Join(values, ""), "s3cret") {
			t.Errorf("the other server got %s: %v", name, values)
		}
	}
	if got.Get("Accept") != "*/*" {
		t.Errorf("the other server did not get what is not a secret: %v", got)
	}
	if err := do("GET", "/here"); err != nil || same.Get("Job-Token") != "t0ken" {
		t.Errorf("the same server got %v, %v", same, err)
	}
	if err := do("PUT", "/moved"); err == nil || !strings.Contains(err.Error(), "redirected to") {
		t.Errorf("an upload that is redirected as a download gives %v", err)
	}
}

func TestErrorsHoldNoSecrets(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(403)
		_, _ = io.WriteString(w, "<?xml version=\"1.0\"?><Error><Code>SignatureDoesNotMatch</Code><Message>It does not match.\nx</Message><StringToSign>s3cret</StringToSign></Error>")
	}))
	host := strings.TrimPrefix(server.URL, "http://")
	address := "http://user:s3cret@" + host + "/path?sig=s3cret#s3cret"
	_, err := quick(nil).Do(t.Context(), Request{URL: address})
	if err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "SignatureDoesNotMatch: It does not match.") {
		t.Errorf("an answer gives %v", err)
	}
	server.Close()
	var network *NetworkError
	_, err = quick(nil).Do(t.Context(), Request{URL: address})
	if err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), host+"/path") || !errors.As(err, &network) {
		t.Errorf("a closed server gives %v", err)
	}
	for _, wrong := range []string{"http://user:s3cret@[::1", "ftp://user:s3cret@host/", "s3cret", "https://"} {
		if _, err = quick(nil).Do(t.Context(), Request{URL: wrong}); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s gives %v", wrong, err)
		}
	}
}

func TestMessagesOfServersAreReadable(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"":                             "",
		"plain text":                   "",
		"<html><body>no</body></html>": "",
		`{"message":"403 Forbidden"}`:  "403 Forbidden",
		`{"error":"invalid_token","error_description":"it has expired"}`:                                       "invalid_token: it has expired",
		`{"message":{"tag":["is taken","is odd"],"name":["is empty"]}}`:                                        "name is empty; tag is taken, is odd",
		"{\"message\":\"a\\u001b[31m\\nb\"}":                                                                   "a[31m b",
		"\ufeff<Error><Code>BlobNotFound</Code><Message>The blob is not there.\nRequestId:1</Message></Error>": "BlobNotFound: The blob is not there.",
		`{"message":"` + strings.Repeat("ä", 1000) + `"}`:                                                      strings.Repeat("ä", 200) + "…",
	} {
		if got := message([]byte(body)); got != want {
			t.Errorf("%.60s: got %q, want %q", body, got, want)
		}
	}
}

func TestDownloads(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		if requests.Add(1) == 1 {
			_, _ = io.WriteString(w, "0123")
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, "0123456789")
	}))
	defer server.Close()
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n, _, err := quick(nil).Download(t.Context(), Request{URL: server.URL}, f)
	if err != nil || n != 10 {
		t.Fatalf("got %d bytes, %v", n, err)
	}
	if text, _ := os.ReadFile(f.Name()); string(text) != "0123456789" || requests.Load() != 2 {
		t.Errorf("after %d requests the file holds %q", requests.Load(), text)
	}
}

func TestATransferThatStandsStillIsGivenUp(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "0")
		w.(http.Flusher).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(release)
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	client := &Client{Attempts: 1, Stall: 50 * time.Millisecond}
	_, _, err = client.Download(t.Context(), Request{URL: server.URL}, f)
	if err == nil || !strings.Contains(err.Error(), "nothing moved for 50ms") {
		t.Errorf("got %v", err)
	}
}

func TestACancelledRequestIsNotRepeated(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	client := &Client{Wait: func(context.Context, time.Duration) error { cancel(); return ctx.Err() }}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	if _, err := client.Do(ctx, Request{URL: "http://" + address}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestWhatAServerSaysShowsNoPartOfASecret(t *testing.T) {
	masktest.Shortens(t, maxErrorMessage, line)
}
