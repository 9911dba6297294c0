// Package doctor holds the command that checks a machine.
package doctor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/components"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/levels"
	"github.com/rungci/rung/cmd/step-runner/command/screen"
	"github.com/rungci/rung/executor"
	"github.com/rungci/rung/internal/confine"
	"github.com/rungci/rung/internal/process"
)

// finding is what one check of `doctor` found.
type finding struct {
	Check  string `json:"check"`
	Status string `json:"status"` // ok, warning or problem
	Found  string `json:"found"`
	Fix    string `json:"fix,omitempty"`
}

const (
	findingOK      = "ok"
	findingWarning = "warning"
	findingProblem = "problem"
)

// app is the program as this command knows it.
type app struct{ *command.Program }

// Command is the command.
func Command(p *command.Program) *cobra.Command { return (&app{p}).doctorCommand() }

func (a *app) doctorCommand() *cobra.Command {
	var asJSON bool
	var removeKept []string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether this machine can run steps and jobs",
		Long:  "doctor checks what step-runner needs on this machine, and tells you what to fix. It exits with 5 if something that steps need is broken.",
		Args:  command.Arguments(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			findings := []finding{
				a.checkShell(), a.checkTemp(), a.checkWorkDir(), checkCleanup(), checkConfine(), a.checkLocale(), a.checkPath(),
				checkProgram("git", "install git to run jobs of a repository with local"),
				checkProgram("node", "install Node.js 20 or later to run JavaScript actions"),
			}
			findings = append(findings, a.checkEngine(removeKept)...)
			if asJSON {
				if err := command.WriteJSON(a.Stdout, findings); err != nil {
					return err
				}
			} else if err := a.printFindings(findings); err != nil {
				return err
			}
			for _, f := range findings {
				if f.Status == findingProblem {
					return exit.Shown(exit.System)
				}
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().StringArrayVar(&removeKept, "remove-kept", nil, "remove the project folders that containers keep between jobs as `NAME`, except those in use")
	return cmd
}

func (a *app) printFindings(findings []finding) error {
	symbols := map[string]string{findingOK: "✓", findingWarning: "!", findingProblem: "✗"}
	if screen.ASCIIOnly(a.Getenv) {
		symbols = map[string]string{findingOK: "+", findingWarning: "!", findingProblem: "x"}
	}
	for _, f := range findings {
		if _, err := fmt.Fprintf(a.Stdout, "%s %-10s %s\n", symbols[f.Status], f.Check, f.Found); err != nil {
			return err
		}
		if f.Fix != "" {
			if _, err := fmt.Fprintf(a.Stdout, "             fix: %s\n", f.Fix); err != nil {
				return err
			}
		}
	}
	return nil
}

func (a *app) checkShell() finding {
	var found []string
	for _, name := range []string{"bash", "sh", "pwsh", "powershell", "cmd"} {
		if path, err := exec.LookPath(name); err == nil {
			found = append(found, path)
		}
	}
	f := finding{Check: "shells", Status: findingOK, Found: strings.Join(found, ", ")}
	if len(found) == 0 {
		return finding{"shells", findingProblem, "no shell was found", "install bash or sh; `script:` steps need one, exec steps do not"}
	}
	if !strings.Contains(found[0], "bash") && runtime.GOOS != "windows" {
		f.Status, f.Fix = findingWarning, "scripts run with sh because bash is not installed; install it if they use its features"
	}
	return f
}

func (a *app) checkTemp() finding {
	dir, err := os.MkdirTemp("", "step-runner-doctor-")
	if err != nil {
		return finding{"temporary", findingProblem, err.Error(), "set TMPDIR to a folder that you can write to"}
	}
	defer os.RemoveAll(dir)
	script := filepath.Join(dir, "try")
	if err := os.WriteFile(script, make([]byte, 1<<20), 0o600); err != nil {
		return finding{"temporary", findingProblem, err.Error(), "make room there, or set TMPDIR to a folder with room"}
	}
	return finding{Check: "temporary", Status: findingOK, Found: os.TempDir() + " can be written"}
}

func (a *app) checkWorkDir() finding {
	dir, err := os.Getwd()
	if err != nil {
		return finding{"work dir", findingProblem, err.Error(), "change to a folder that exists"}
	}
	return finding{Check: "work dir", Status: findingOK, Found: dir}
}

// checkCleanup says how well this system lets a step be ended with all that it started.
func checkCleanup() finding {
	const detached = "a daemon that detaches itself from its step may outlive it"
	switch runtime.GOOS {
	case "linux":
		if err := process.EnableSubreaper(); err != nil {
			return finding{"cleanup", findingWarning, fmt.Sprintf("process groups only: %v", err), detached}
		}
		return finding{Check: "cleanup", Status: findingOK, Found: "process groups, and detached daemons through the child subreaper"}
	case "windows":
		return finding{Check: "cleanup", Status: findingOK, Found: "job objects"}
	default:
		return finding{"cleanup", findingWarning, "process groups only", detached}
	}
}

// checkConfine says whether steps can be confined.
func checkConfine() finding {
	f := finding{Check: "confine", Status: findingOK, Found: "steps can be confined: namespaces and Landlock work"}
	switch err := process.CanConfine(); {
	case err != nil && runtime.GOOS != "linux":
		return finding{"confine", findingWarning, "steps cannot be confined: only Linux does that", ""}
	case err != nil:
		return finding{"confine", findingWarning, fmt.Sprintf("steps cannot be confined: %v", err), confineFix()}
	case confine.ABI() < confine.ScopeABI:
		return finding{"confine", findingWarning, "confined steps reach the abstract sockets of other processes", "Linux 6.12 or later keeps them apart; until then `confine: true` is refused"}
	}
	return f
}

// confineFix looks for what keeps a user from namespaces.
func confineFix() string {
	for file, hint := range map[string]string{
		"/proc/sys/kernel/apparmor_restrict_unprivileged_userns": "AppArmor keeps programs from user namespaces: give step-runner a profile with `userns,`, or sysctl kernel.apparmor_restrict_unprivileged_userns=0",
		"/proc/sys/kernel/unprivileged_userns_clone":             "allow user namespaces: sysctl kernel.unprivileged_userns_clone=1",
		"/proc/sys/user/max_user_namespaces":                     "allow user namespaces: sysctl user.max_user_namespaces=10000",
	} {
		text, err := os.ReadFile(file)
		value := strings.TrimSpace(string(text))
		if err == nil && (value == "0") != strings.Contains(file, "apparmor") {
			return hint
		}
	}
	return "in a container, allow user namespaces and a /proc of their own (docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined)"
}

// checkProgram looks for a program that some jobs need.
func checkProgram(name, fix string) finding {
	file, err := exec.LookPath(name)
	if err != nil {
		return finding{name, findingWarning, "not found", fix}
	}
	out, err := exec.Command(file, "--version").Output()
	if err != nil {
		return finding{name, findingWarning, fmt.Sprintf("%s does not run: %v", file, err), fix}
	}
	return finding{Check: name, Status: findingOK, Found: fmt.Sprintf("%s (%s)", strings.TrimSpace(string(out)), file)}
}

// checkEngine looks for a container engine, and says which levels of isolation there are.
func (a *app) checkEngine(removeKept []string) []finding {
	l := levels.New(a.Program, &components.Flags{}, "")
	defer l.Close()
	names := []string{string(executor.None)}
	for _, level := range []executor.Level{executor.CGroup, executor.Container, executor.Sandbox} {
		if _, err := l.Open(level); err == nil {
			names = append(names, string(level))
		}
	}
	found := strings.Join(names, ", ")
	level, err := l.OpenContainer()
	if err != nil {
		return []finding{{"levels", findingWarning, fmt.Sprintf("%s, but not container: %v", found, err), "start Docker or Podman to run jobs in their images"}}
	}
	all := []finding{{Check: "levels", Status: findingOK, Found: found}}
	if keeper, ok := level.(executor.Keeper); ok {
		all = append(all, checkKept(keeper, removeKept)...)
	}
	return all
}

// keptTime bounds how long it may take to list and remove kept project folders.
const keptTime = time.Minute

// checkKept lists the project folders that are kept between jobs, and removes those with these names. It finds nothing where there are none.
func checkKept(keeper executor.Keeper, remove []string) (all []finding) {
	ctx, cancel := context.WithTimeout(context.Background(), keptTime)
	defer cancel()
	kept, err := keeper.Kept(ctx)
	if err != nil {
		return []finding{{"kept", findingWarning, err.Error(), "check whether the container engine answers"}}
	}
	for _, one := range kept {
		f := finding{Check: "kept", Status: findingOK, Found: fmt.Sprintf("the project folder %s, in %s since %s", one.Name, one.Place, one.Made.Format(time.DateOnly))}
		if slices.Contains(remove, one.Name) {
			f.Found = "removed " + f.Found
			if err := keeper.Forget(ctx, one.Place); err != nil {
				f = finding{"kept", findingWarning, err.Error(), "remove it when no job uses it"}
			}
		}
		all = append(all, f)
	}
	return all
}

func (a *app) checkLocale() finding {
	if screen.ASCIIOnly(a.Getenv) {
		return finding{"locale", findingWarning, "not UTF-8: symbols are shown in ASCII", "set LANG=C.UTF-8"}
	}
	return finding{Check: "locale", Status: findingOK, Found: "UTF-8"}
}

func (a *app) checkPath() finding {
	path := a.Getenv("PATH")
	if path == "" {
		return finding{"PATH", findingWarning, "not set: steps get a default", "set PATH"}
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			return finding{"PATH", findingWarning, fmt.Sprintf("holds %q, which is not absolute", dir), "remove it: what it finds depends on where a step runs"}
		}
	}
	return finding{Check: "PATH", Status: findingOK, Found: path}
}
