package command

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/steps/diag"
)

// HelpWidth is the width of all help texts, in columns.
const HelpWidth = 80

// InGroup puts commands under a heading of the help text of their parent.
func InGroup(parent *cobra.Command, title string, commands ...*cobra.Command) {
	id := strings.ToLower(title)
	parent.AddGroup(&cobra.Group{ID: id, Title: title + ":"})
	for _, cmd := range commands {
		cmd.GroupID = id
	}
	parent.AddCommand(commands...)
}

// FitHelp makes root and everything below it wrap its help text to HelpWidth when it is asked for.
func FitHelp(root *cobra.Command) {
	usage := root.UsageFunc()
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		out := cmd.OutOrStderr()
		defer cmd.SetOut(out)
		var text bytes.Buffer
		cmd.SetOut(&text)
		if err := usage(cmd); err != nil {
			return err
		}
		_, err := io.WriteString(out, wrapFlags(text.String(), cmd.LocalFlags(), cmd.InheritedFlags()))
		return err
	})
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		cmd.Long = Wrap(cmd.Long, HelpWidth)
		help(cmd, args)
	})
}

// wrapFlags wraps the descriptions of flags in a usage text to HelpWidth.
func wrapFlags(text string, sets ...*pflag.FlagSet) string {
	trimmed := func(text string) string { return strings.TrimRightFunc(text, unicode.IsSpace) }
	for _, flags := range sets {
		if long := trimmed(flags.FlagUsages()); long != "" {
			text = strings.Replace(text, long, trimmed(flags.FlagUsagesWrapped(HelpWidth)), 1)
		}
	}
	return text
}

// VersionFlag gives root, a Group, the flag --version, which prints a line. Neither it nor FitHelp uses a template of cobra's: package text/template keeps the
// linker from leaving out exported methods of anything, which makes a program two megabytes larger.
func VersionFlag(root *cobra.Command, line func() string) {
	asked := root.Flags().BoolP("version", "v", false, "version for "+root.Name())
	check, run := root.Args, root.RunE
	root.Args = func(cmd *cobra.Command, args []string) error {
		if *asked {
			return nil
		}
		return check(cmd, args)
	}
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if !*asked {
			return run(cmd, args)
		}
		_, err := io.WriteString(cmd.OutOrStdout(), line())
		return err
	}
}

// Wrap breaks the lines of every paragraph. A paragraph with an indented line is a table, and stays as it is.
func Wrap(text string, width int) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if strings.HasPrefix(p, " ") || strings.Contains(p, "\n ") {
			continue
		}
		var lines []string
		line := ""
		for word := range strings.FieldsSeq(keepItems(p)) {
			word = strings.ReplaceAll(word, itemSpace, " ")
			switch {
			case line == "":
				line = word
			case len([]rune(line))+1+len([]rune(word)) > width:
				lines = append(lines, line)
				line = word
			default:
				line += " " + word
			}
		}
		paragraphs[i] = strings.Join(append(lines, line), "\n")
	}
	return strings.Join(paragraphs, "\n\n")
}

// itemSpace stands for a space at which no line may break.
const itemSpace = "\u00a0"

// keepItems keeps the items of a list such as "0 success · 1 failure" on one line each.
func keepItems(text string) string {
	head, list, ok := strings.Cut(text, ": ")
	if !ok || !strings.Contains(list, " · ") {
		return text
	}
	items := strings.Split(strings.Join(strings.Fields(list), " "), " · ")
	for i, item := range items {
		items[i] = strings.ReplaceAll(item, " ", itemSpace)
	}
	return head + ": " + strings.Join(items, itemSpace+"· ")
}

// FlagError makes an error of the command line one of ours, which names the flag that was probably meant.
func FlagError(cmd *cobra.Command, err error) error {
	wrong := exit.Usage("%v", err)
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				names = append(names, f.Name)
			}
		})
		if near := similarFlags(unknown.GetSpecifiedName(), names); len(near) > 0 {
			return wrong.Hinted("did you mean --%s?", strings.Join(near, " or --"))
		}
	}
	return wrong.Hinted("see `%s --help`", cmd.CommandPath())
}

// maxSimilar is how many flags a message suggests.
const maxSimilar = 3

// similarFlags are the flags that an unknown one may stand for: those that begin with it, or else the one that it is a typo of, or else those of which it is
// a word. More than a few say nothing.
func similarFlags(unknown string, names []string) []string {
	var longer, parts []string
	for _, name := range names {
		if strings.HasPrefix(name, unknown) {
			longer = append(longer, name)
		}
		if slices.Contains(strings.Split(name, "-"), unknown) {
			parts = append(parts, name)
		}
	}
	typo := diag.Suggest(unknown, names)
	switch {
	case len(longer) > 0 && len(longer) <= maxSimilar:
		return longer
	case typo != "":
		return []string{typo}
	case len(parts) <= maxSimilar:
		return parts
	}
	return nil
}

// OneOf checks the value of a flag that takes one of a few.
func OneOf(flag, given string, choices ...string) error {
	for _, choice := range choices {
		if given == choice {
			return nil
		}
	}
	err := exit.Usage("%s must be one of %s, not %q", flag, strings.Join(choices, ", "), given)
	if near := diag.Suggest(given, choices); near != "" {
		return err.Hinted("did you mean %s?", near)
	}
	return err
}

// Beginning are those of the values that begin with what was typed.
func Beginning(typed string, values []string) (found []string) {
	for _, v := range values {
		if strings.HasPrefix(v, typed) {
			found = append(found, v)
		}
	}
	return found
}

// CompleteWith gives a flag its values for completion in a shell.
func CompleteWith(cmd *cobra.Command, flag string, values cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, values); err != nil {
		panic(err) // there is no such flag, which every start would tell
	}
}

// Complete gives a flag that takes one of a few its values for completion in a shell.
func Complete(cmd *cobra.Command, flag string, choices ...string) {
	CompleteWith(cmd, flag, cobra.FixedCompletions(choices, cobra.ShellCompDirectiveNoFileComp))
}
