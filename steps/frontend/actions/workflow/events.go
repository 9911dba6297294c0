package workflow

import "strings"

// eventKind is an event that starts workflows, and how it can be narrowed down.
type eventKind struct {
	types   string // its types of activity; "*" is any
	usual   string // those that start a workflow which names none; empty is all
	filters string // further keys
}

const (
	pullRequestTypes = "assigned unassigned labeled unlabeled opened edited closed reopened synchronize converted_to_draft ready_for_review locked unlocked review_requested review_request_removed auto_merge_enabled auto_merge_disabled milestoned demilestoned enqueued dequeued stacked"
	pullRequestUsual = "opened synchronize reopened"
	changed          = "created edited deleted"
	branchFilters    = "branches branches-ignore"
	pathFilters      = "paths paths-ignore"
)

// eventKinds are the events that start workflows.
var eventKinds = map[string]eventKind{
	"branch_protection_rule": {types: changed},
	"check_run":              {types: "completed created rerequested requested_action"},
	"check_suite":            {types: "completed"},
	"create":                 {}, "delete": {}, "deployment": {}, "deployment_status": {}, "fork": {}, "gollum": {}, "page_build": {}, "public": {}, "status": {},
	"discussion":                  {types: changed + " transferred pinned unpinned labeled unlabeled locked unlocked category_changed answered unanswered"},
	"discussion_comment":          {types: changed},
	"image_version":               {types: "created ready deleted", filters: "names versions"},
	"issue_comment":               {types: changed},
	"issues":                      {types: "opened edited deleted transferred pinned unpinned closed reopened assigned unassigned labeled unlabeled locked unlocked milestoned demilestoned typed untyped field_added field_removed"},
	"label":                       {types: changed},
	"merge_group":                 {types: "checks_requested", filters: branchFilters},
	"milestone":                   {types: "created closed opened edited deleted"},
	"project":                     {types: "created closed reopened edited deleted"},
	"project_card":                {types: "created moved converted edited deleted"},
	"project_column":              {types: "created updated moved deleted"},
	"pull_request":                {types: pullRequestTypes, usual: pullRequestUsual, filters: branchFilters + " " + pathFilters},
	"pull_request_comment":        {types: changed},
	"pull_request_review":         {types: "submitted edited dismissed"},
	"pull_request_review_comment": {types: changed},
	"pull_request_target":         {types: pullRequestTypes, usual: pullRequestUsual, filters: branchFilters + " " + pathFilters},
	"push":                        {filters: branchFilters + " tags tags-ignore " + pathFilters},
	"registry_package":            {types: "published updated"},
	"release":                     {types: "published unpublished created edited deleted prereleased released"},
	"repository_dispatch":         {types: "*"},
	"schedule":                    {},
	"watch":                       {types: "started"},
	"workflow_call":               {filters: "inputs secrets outputs"},
	"workflow_dispatch":           {filters: "inputs"},
	"workflow_run":                {types: "requested completed in_progress", filters: "workflows " + branchFilters},
}

// keys are what the event's map may hold.
func (k eventKind) keys() []string {
	keys := strings.Fields(k.filters)
	if k.types != "" {
		keys = append([]string{"types"}, keys...)
	}
	return keys
}
