package repository

import (
	"context"
	"slices"
	"strings"
	"time"
)

// maxCommits is how many commits of a push are told of, as GitHub has it.
const maxCommits = "2048"

// Commits returns the commits that came after one, up to the one that is checked out, the oldest first.
func (r *Repository) Commits(ctx context.Context, after string) ([]*Commit, error) {
	text, err := r.question(ctx, "log", "--no-show-signature", "--no-color", "--encoding=UTF-8", "-z", "--max-count="+maxCommits,
		"--format=%H%x01%P%x01%an <%ae>%x01%cI%x01%B", after+"..HEAD")
	if err != nil {
		return nil, err
	}
	var out []*Commit
	for entry := range strings.SplitSeq(text, "\x00") {
		fields := strings.SplitN(strings.ToValidUTF8(entry, "\uFFFD"), "\x01", 5)
		if len(fields) != 5 {
			continue
		}
		c := &Commit{SHA: fields[0], ShortSHA: fields[0][:min(shortSHA, len(fields[0]))], Author: fields[2]}
		c.Parent, _, _ = strings.Cut(fields[1], " ")
		c.Timestamp, _ = time.Parse(time.RFC3339, fields[3])
		c.setMessage(fields[4])
		out = append(out, c)
	}
	slices.Reverse(out)
	return out, nil
}
