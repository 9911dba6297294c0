package service_test

import (
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	planv1 "github.com/rungci/rung/api/rung/plan/v1"
	runnerv1 "github.com/rungci/rung/api/rung/runner/v1"
	"github.com/rungci/rung/steps/frontend/gitlabsteps"
	"github.com/rungci/rung/steps/plan/planpb"
	"github.com/rungci/rung/steps/service"
)

// FuzzRequest reads any bytes as a request, to the point where it could be run: whatever a client sends, it is an error or it
// is a job, and never a crash.
func FuzzRequest(f *testing.F) {
	for _, text := range []string{
		"- name: a\n  script: echo\n",
		"- {name: a, step: ./b, inputs: {x: '${{ env.Y }}'}, retry: 2}\n- name: p\n  parallel:\n  - {name: c, script: c}\n",
	} {
		component, err := gitlabsteps.ParseSteps("steps", []byte(text))
		if err != nil {
			f.Fatal(err)
		}
		message, err := planpb.ToProto(component)
		if err != nil {
			f.Fatal(err)
		}
		for _, request := range []*runnerv1.RunRequest{
			{Id: "1", Steps: &runnerv1.RunRequest_Component{Component: message}},
			{Id: "1", Steps: &runnerv1.RunRequest_Text{Text: &runnerv1.Text{Yaml: text}}, Variables: []*runnerv1.Variable{{Name: "A", File: true}}},
		} {
			data, err := proto.Marshal(request)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data)
		}
	}
	empty, err := proto.Marshal(&runnerv1.RunRequest{Steps: &runnerv1.RunRequest_Component{Component: &planv1.Component{}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(empty)
	f.Fuzz(func(t *testing.T, data []byte) {
		var request runnerv1.RunRequest
		if proto.Unmarshal(data, &request) != nil {
			return
		}
		request.WorkDir = os.TempDir()
		err := service.Prepare(&request, gitlabsteps.ParseSteps)
		if err != nil && strings.TrimSpace(err.Error()) == "" {
			t.Error("an error says nothing")
		}
	})
}
