package session

import (
	"maps"
	"slices"
	"strings"

	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/values"
)

// environment reads --env, and the log level that every step is told.
func (s *Session) environment() (map[string]string, error) {
	env := map[string]string{}
	for _, file := range s.EnvFiles {
		read, err := values.AssignmentsOf("--env-file", file, values.PassedOn(s.Program, "--env-file"))
		if err != nil {
			return nil, err
		}
		maps.Copy(env, read)
	}
	given, err := values.Assignments("--env", s.Env, values.PassedOn(s.Program, "--env"))
	if err != nil {
		return nil, err
	}
	maps.Copy(env, given)
	if env[logLevelName], err = s.level(env[logLevelName]); err != nil {
		return nil, err
	}
	return env, nil
}

// credentials are the values of variables whose names say that they are credentials, in order.
func credentials(env map[string]string) (texts []string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if values.IsCredential(strings.ToUpper(name)) {
			texts = append(texts, env[name])
		}
	}
	return texts
}

const logLevelName = "CI_STEPS_LOG_LEVEL"

// level finds the log level: the job's variable wins over --env, and that over the host's environment.
func (s *Session) level(fromEnv string) (string, error) {
	host, _ := s.Program.LookupEnv(logLevelName)
	for _, text := range []string{s.JobVars[logLevelName].Value, fromEnv, host} {
		switch level := strings.ToLower(strings.TrimSpace(text)); level {
		case "":
		case "debug":
			s.Verbose = max(s.Verbose, 2)
			return level, nil
		case "info", "warn", "error":
			return level, nil
		default:
			return "", exit.Coded(exit.Definition, "log level: %q is not supported", text).Hinted("%s is one of debug, info, warn and error", logLevelName)
		}
	}
	return "info", nil
}

// SecretValues reads the secrets, once: a file may be a pipe.
func (s *Session) SecretValues() (map[string]string, error) {
	if s.known == nil {
		secrets, err := values.ReadSecrets(s.Secrets, s.Program.LookupEnv)
		if err != nil {
			return nil, err
		}
		s.known = secrets
	}
	return s.known, nil
}
