package codec_test

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	runnerv1 "github.com/rungci/rung/api/rung/runner/v1"
	"github.com/rungci/rung/steps/service/codec"
)

// TestWhatAMessageHadIsNotInTheNextOne sends messages of all sizes, long and short in turn, through buffers that are used again.
func TestWhatAMessageHadIsNotInTheNextOne(t *testing.T) {
	t.Parallel()
	c := codec.New(0)
	var before *runnerv1.FollowLogsResponse
	var want []byte
	for _, size := range []int{0, 1, 2 << 20, 1023, 40 << 10, 33 << 10, 150 << 10, 128 << 10, 1 << 20, 500 << 10, 10, 16 << 10, 4 << 10} {
		sent := &runnerv1.FollowLogsResponse{Data: bytes.Repeat([]byte{byte(size)}, size)}
		data, err := c.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		var parts mem.BufferSlice // as it comes from a connection: in pieces
		for rest := data.Materialize(); len(rest) > 0; {
			n := min(len(rest), 16<<10)
			parts, rest = append(parts, mem.SliceBuffer(rest[:n])), rest[n:]
		}
		data.Free()
		got := &runnerv1.FollowLogsResponse{}
		if err := c.Unmarshal(parts, got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(sent.GetData(), got.GetData()) {
			t.Errorf("a message of %d bytes came out otherwise", size)
		}
		if before != nil && !bytes.Equal(before.GetData(), want) {
			t.Errorf("the message before one of %d bytes has changed", size)
		}
		before, want = got, bytes.Clone(got.GetData())
	}
	if _, err := c.Marshal("text"); err == nil {
		t.Error("what is no message was written")
	}
}

// TestAMessageOfTooManyMessagesIsNotRead has them beside each other, in each other, and as texts.
func TestAMessageOfTooManyMessagesIsNotRead(t *testing.T) {
	t.Parallel()
	const most = 1000
	c := codec.New(most)
	events := func(n int) *runnerv1.FollowStepsResponse {
		m := &runnerv1.FollowStepsResponse{}
		for range n {
			m.Events = append(m.Events, &runnerv1.Event{})
		}
		return m
	}
	for name, test := range map[string]struct {
		sent, got proto.Message
		wrong     bool
	}{
		"as many as may be":  {events(most), &runnerv1.FollowStepsResponse{}, false},
		"one more":           {events(most + 1), &runnerv1.FollowStepsResponse{}, true},
		"in one":             {&runnerv1.StatusResponse{Runs: []*runnerv1.RunStatus{{Error: &runnerv1.Error{Diagnostics: make([]*runnerv1.Diagnostic, most)}}}}, &runnerv1.StatusResponse{}, true},
		"texts":              {&runnerv1.GetStateResponse{State: &runnerv1.RunState{Sensitive: make([][]byte, most+1)}}, &runnerv1.GetStateResponse{}, true},
		"a long text in one": {&runnerv1.FollowStepsResponse{Events: []*runnerv1.Event{{Step: strings.Repeat("x", 10*most)}}}, &runnerv1.FollowStepsResponse{}, false},
	} {
		data, err := proto.Marshal(test.sent)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, test.got); (err != nil) != test.wrong {
			t.Errorf("%s: %v", name, err)
		}
	}
}
