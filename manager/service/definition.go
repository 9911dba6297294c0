package service

import (
	"encoding/xml"
	"fmt"
	"strings"
)

const description = "Rung, a runner of GitLab"

// Definition is what the system is told of the service, as the file that is installed.
func (s *Service) Definition(of string) (string, error) {
	if err := s.check(); err != nil {
		return "", err
	}
	switch of {
	case Systemd:
		return s.systemd(), nil
	case Launchd:
		return s.launchd(), nil
	}
	return "", fmt.Errorf("a service of %s is not defined by a file", of)
}

// systemd is a unit. Stopping it lets the jobs end, for two hours at most; those that run then are taken over by the next start. As only the
// manager is stopped, what jobs started goes on.
func (s *Service) systemd() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("[Unit]\nDescription=%s", description)
	if !s.Own {
		line("Wants=network-online.target\nAfter=network-online.target")
	}
	line("\n[Service]")
	command := quoted(s.Executable)
	for _, arg := range s.arguments() {
		command += " " + quoted(arg)
	}
	line("ExecStart=%s", command)
	line("ExecReload=/bin/kill -HUP $MAINPID")
	if s.User != "" {
		line("User=%s", s.User)
	}
	if s.WorkDir != "" {
		line("WorkingDirectory=%s", strings.ReplaceAll(s.WorkDir, "%", "%%"))
	}
	line("# stop finishes the jobs that run; after TimeoutStopSec they are left to the next start\nKillSignal=SIGQUIT\nTimeoutStopSec=2h")
	line("# only the manager is stopped: jobs on this machine outlive it, and the next process takes them over\nKillMode=process")
	line("Restart=always\nRestartSec=2")
	line("# limits of the level cgroup\nDelegate=yes")
	line("\n[Install]")
	if s.Own {
		line("WantedBy=default.target")
	} else {
		line("WantedBy=multi-user.target")
	}
	return b.String()
}

// quoted is a word of a command line in a unit. Plain words stay as they are.
func quoted(word string) string {
	word = strings.NewReplacer("%", "%%", "$", "$$").Replace(word)
	if strings.Trim(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+:@=,") == "" && word != "" {
		return word
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(word) + `"`
}

// exitTimeout is how many seconds launchd waits for the end of a manager that it told to end: longer than any reasonable shutdown_timeout.
const exitTimeout = 600

// launchd is a property list. launchd knows no signal to stop with but SIGTERM, which ends the jobs within shutdown_timeout.
func (s *Service) launchd() string {
	var b strings.Builder
	b.WriteString(xml.Header + `<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
`)
	text := func(value string) string {
		var out strings.Builder
		_ = xml.EscapeText(&out, []byte(value)) // a Builder takes everything
		return "<string>" + out.String() + "</string>"
	}
	key := func(name, value string) { fmt.Fprintf(&b, "\t<key>%s</key>\n\t%s\n", name, value) }
	key("Label", text(s.Name))
	command := "<array>\n"
	for _, arg := range append([]string{s.Executable}, s.arguments()...) {
		command += "\t\t" + text(arg) + "\n"
	}
	key("ProgramArguments", command+"\t</array>")
	if s.User != "" {
		key("UserName", text(s.User))
	}
	if s.WorkDir != "" {
		key("WorkingDirectory", text(s.WorkDir))
	}
	key("RunAtLoad", "<true/>")
	key("KeepAlive", "<true/>")
	key("ExitTimeOut", fmt.Sprintf("<integer>%d</integer>", exitTimeout))
	key("AbandonProcessGroup", "<true/>")
	b.WriteString("</dict>\n</plist>\n")
	return b.String()
}
