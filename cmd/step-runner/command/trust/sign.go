package trust

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/rungci/rung/cmd/step-runner/command"
	"github.com/rungci/rung/cmd/step-runner/command/exit"
	"github.com/rungci/rung/cmd/step-runner/command/keys"
	"github.com/rungci/rung/steps/signature"
	"github.com/rungci/rung/steps/source/tree"
)

func (a *app) signCommand() *cobra.Command {
	var key keys.SigningKey
	var force bool
	cmd := &cobra.Command{
		Use:   "sign --key KEY FOLDER",
		Short: "Sign a step",
		Long: `sign writes FOLDER/` + signature.ComponentFile + `: a signature over the content digest of the folder, valid for every copy
of it. Publish it with the step. Files named *` + signature.Suffix + ` are not signed, so others can add signatures with their own keys. After
a change to the step, sign it again with --force.

` + keys.PrivateKeysHelp + `

` + signExitCodesHelp,
		Example: `  ssh-keygen -t ed25519 -f key && step-runner sign --key key ./hello
  step-runner verify --key key.pub ./hello`,
		Args: command.Arguments(1, 1, "the step's folder"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.signComponent(cmd.Context(), args[0], &key, force)
		},
	}
	key.Declare(cmd.Flags())
	cmd.Flags().BoolVar(&force, "force", false, "replace signatures over other files")
	return cmd
}

func (a *app) signComponent(ctx context.Context, dir string, key *keys.SigningKey, force bool) error {
	digest, err := componentDigest(dir)
	if err != nil {
		return err
	}
	statement, err := signature.ComponentStatement(digest)
	if err != nil {
		return err
	}
	private, err := key.Open(ctx, a.Program)
	if err != nil {
		return err
	}
	out := filepath.Join(dir, signature.ComponentFile)
	envelope, err := a.signInto(out, statement, private, force)
	if err != nil {
		return err
	}
	// It is to be published, as the files beside it are.
	if err := os.Chmod(out, 0o644); err != nil {
		return exit.Coded(exit.System, "making the signatures readable: %v", err)
	}
	a.saySigned(out, digest, private, envelope)
	return nil
}

func (a *app) verifyCommand() *cobra.Command {
	var trusted keys.TrustedKeys
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "verify --key KEY FOLDER",
		Short: "Verify the signatures of a step",
		Long: `verify checks the signatures in FOLDER/` + signature.ComponentFile + `: that every given key has signed, and that the files of the folder are
unchanged.

` + keys.PublicKeysHelp + `

` + signaturesExitCodesHelp,
		Example: `  step-runner verify --key team.pub ./hello
  step-runner verify --key alice.pub --key bob.pub --threshold 1 ./hello`,
		Args: command.Arguments(1, 1, "the step's folder"),
		RunE: func(_ *cobra.Command, args []string) error {
			v, err := verifyComponent(args[0], &trusted)
			if err != nil {
				return err
			}
			return a.showVerification(v, asJSON)
		},
	}
	trusted.Declare(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print what was found as JSON")
	return cmd
}

func verifyComponent(dir string, trusted *keys.TrustedKeys) (*verification, error) {
	digest, err := componentDigest(dir)
	if err != nil {
		return nil, err
	}
	v, envelope, err := verifyEnvelope(filepath.Join(dir, signature.ComponentFile), trusted)
	if err != nil {
		return nil, err
	}
	v.Digest = digest
	if v.err == nil { // what nobody known has signed is not even read
		if err := envelope.CoversComponent(digest); err != nil {
			v.fail(fmt.Errorf("%s: %w", dir, err))
		}
	}
	return v, nil
}

func componentDigest(dir string) (string, error) {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return "", exit.Usage("%s is a file; a step is signed as a whole", dir).Hinted("name the folder: %s", filepath.Dir(dir))
	}
	digest, err := tree.Digest(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", exit.Coded(exit.NotFound, "there is no folder %s", dir)
	}
	return digest, err
}
