package house

import "regexp"

// phrase is a row of the word list: what nobody writes in a text that a user sees, and what to write instead.
type phrase struct {
	avoid   string         // as the style page shows it
	write   string         // what stands there instead, as the style page shows it
	pattern *regexp.Regexp // finds it, in any case
	fine    *regexp.Regexp // the matches that are plain English; nil when there are none
}

func row(avoid, write, pattern string) phrase {
	return phrase{avoid: avoid, write: write, pattern: regexp.MustCompile(`(?i)` + pattern)}
}

// except names the matches of a pattern that are plain English.
func (p phrase) except(fine string) phrase {
	p.fine = regexp.MustCompile(`(?i)` + fine)
	return p
}

// wordList is the list of docs/style.md, which shows it. A phrase gets in when a reader stumbled over it.
var wordList = []phrase{
	row("our system failed", "internal error", `\b(our|the) system failed\b`),
	row("a job failed that may not", "a required job failed", `\bfailed (that|which) may not\b`),
	row("5x is no duration", "5x is not a duration", "\\b(is|was) no [a-z%\"'`]").
		except(`\bthere (is|was) no\b|\b(is|was) no (longer|more than|such|different|better|worse|other)\b|\bis "?no"?( for|:|$)`),
	row("the value is none of a, b", "the value must be one of a, b", `\bis none of\b`),
	row("passed with a word", "passed with a note", `\bwith a word\b`),
	row("ask anew, fetch anew", "refresh, fetch again", `\banew\b`),
	row("run a recorded run again", "re-run a trace", `\b(again a recorded run|a recorded run again)\b`),
	row("say what came out differently", "show differences", `\b(say|says|said|tells?) what came out differently\b`),
	row("where they are there", "if they exist", `\bwhere (they are|it is|one is) there\b`),
	row("where there is one", "if there is one", `\bwhere there (is one|are any)\b`),
	row("is there already", "already exists", `\b(is|are) (there already|already there)\b`),
	row("is not there", "does not exist", `\b(is|are|was|were) not there\b`),
	row("those that are there", "those that exist", `\bthat (is|are) there\b`),
	row("accepted, not heeded", "accepted, ignored", `\b(not|un)[ -]?heeded\b`),
	row("heed", "honor", `\bheed(s|ed|ing)?\b`),
	row("LEGS, a leg of the matrix", "MATRIX, a matrix job", `\blegs?\b`),
	row("no folder to write down in what is to be cleaned up", "cannot create the cleanup ledger", `\bfolder to write down\b`),
	row("write down", "record", `\b(write|writes|written|wrote) down\b`),
	row("cannot be told", "is unknown", `\b(cannot|could not) be told\b`),
	row("the folders of this machine", "the folders on this machine", `\bof this machine\b`),
	row("the run is gone on with", "the run is resumed", `\b(gone|goes|go|went) on with\b|\bgo on anew\b`),
	row("give --image, --image is given", "use --image, with --image", `\bgive -`),
	row("a job whose time is over", "a job that timed out", `\bwhose( own)? time (is|was) over\b`),
	row("it stands in the file", "it is in the file", `\b(stands?|stood) (in|at|there|beside|before|first|where|on)\b`).except(`\bstands? in for\b`),
	row("nothing is said of it", "it is not reported", `\b(is|are) said of\b`),
	row("says how it went", "reports the result", `\b(says|said|say) how it\b`),
	row("in the place of", "in place of", `\bin the place of\b`),
	row("sent in clear", "sent unencrypted, in plain text", `\bin clear\b`),
	row("held against its digest", "checked against its digest", `\b(held|holds?|hold) [a-z ]{0,20}against\b`),
	row("of no use without --port", "requires --port", `\bof no use\b`),
	row("not here any more", "no longer exists", `\bnot (here|there) any more\b`),
	row("what is at hand", "what is available", `\bat hand\b`),
	row("both are told, tells of a credential", "both are reported, suggests a credential", `\b(are|is) told of\b|\btells of\b|\bboth are told\b`),
	row("whoever wants it", "anyone who wants it", `\bwhoever (shall|wants?|should|made|set)\b`),
	row("what shall be locked", "what to lock", `\bshall\b`),
	row("as far as they are known", "if they are known", `\bas far as (they|it|the machine)\b`),
	row("made of the repository", "derived from the repository", `\bmade of the (repository|trace)\b`),
}

// fileNames are words that no Go file has as its name, as nobody would search for them, and what to name instead. A name gets in when a reader could not
// tell what is in its file.
var fileNames = map[string]string{
	"again":     "what is repeated: rerun.go, retry.go",
	"better":    "what is compared: comparison.go",
	"early":     "what is opened or begun",
	"elsewhere": "what is on other machines",
	"given":     "what is passed: inputs.go, sensitive.go",
	"gone":      "what has ended",
	"held":      "what is kept back: heldoutput.go",
	"kept":      "what is kept: keptproject.go",
	"lacking":   "what is missing",
	"left":      "what remains: orphans.go",
	"legs":      "strategy.go, matrix.go",
	"made":      "what is made: files.go",
	"mine":      "whose it is: fileowner.go",
	"said":      "what is said: output.go, message.go",
	"seen":      "what is observed: list.go",
	"spot":      "place.go",
	"taken":     "what is in use: allocation.go",
	"talk":      "who talks, or the protocol",
	"would":     "dryrun.go, preview.go",
}
