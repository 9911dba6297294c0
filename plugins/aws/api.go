package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2instanceconnect"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/rungci/rung/sdk/instancegroup"
)

// api has the clients of AWS's services, and what all their calls share.
type api struct {
	scaling *autoscaling.Client
	ec2     *ec2.Client
	connect *ec2instanceconnect.Client
	queue   *sqs.Client
	region  string
	limiter instancegroup.Limiter
}

// credentialsAdvice says where credentials can come from. Those of the environment are there only if somebody has passed them on.
const credentialsAdvice = `set "profile" or "credentials_file", run on a machine with an instance profile, or pass variables such as AWS_ACCESS_KEY_ID on with plugin_environment in [runners.fleet] (rung plugin test: --environment)`

// tryTime bounds one try of a call.
const tryTime = 30 * time.Second

// openAPI makes clients as AWS's own programs are configured, with what the options say of that.
func openAPI(ctx context.Context, o Options) (*api, error) {
	load := []func(*config.LoadOptions) error{
		// Tries and their rate are the limiter's.
		config.WithRetryer(func() aws.Retryer { return aws.NopRetryer{} }),
		config.WithEC2IMDSRegion(),
	}
	if o.Region != "" {
		load = append(load, config.WithRegion(o.Region))
	}
	if o.Profile != "" {
		load = append(load, config.WithSharedConfigProfile(o.Profile))
	}
	if o.ConfigFile != "" {
		load = append(load, config.WithSharedConfigFiles([]string{o.ConfigFile}))
	}
	if o.CredentialsFile != "" {
		load = append(load, config.WithSharedCredentialsFiles([]string{o.CredentialsFile}))
	}
	c, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, fmt.Errorf("the configuration of AWS: %w", err)
	}
	if c.Region == "" {
		return nil, errors.New(`the region is unknown: set the option "region", or pass AWS_REGION on with plugin_environment in [runners.fleet] (rung plugin test: --environment)`)
	}
	if _, err := c.Credentials.Retrieve(ctx); err != nil {
		return nil, &instancegroup.Error{Kind: instancegroup.ErrUnauthorised, Message: fmt.Sprintf("no credentials of AWS: %v; %s", err, credentialsAdvice), Err: err}
	}
	return &api{
		scaling: autoscaling.NewFromConfig(c), ec2: ec2.NewFromConfig(c), connect: ec2instanceconnect.NewFromConfig(c), queue: sqs.NewFromConfig(c),
		region: c.Region, limiter: instancegroup.Limiter{PerSecond: o.RequestsPerSecond},
	}, nil
}

// call makes a call of AWS until it works, or fails for good. All calls that are made through it can be repeated: they read, say what the result is to be, or have a token.
// errLost is in the error if the answer of any try did not come.
func call[In, Out, Opt any](ctx context.Context, a *api, do func(context.Context, *In, ...func(*Opt)) (*Out, error), in *In) (out *Out, err error) {
	return attempt(ctx, a, do, in, true)
}

// once is call for what must not be repeated before somebody has looked: an answer that did not come is ErrUncertain.
func once[In, Out, Opt any](ctx context.Context, a *api, do func(context.Context, *In, ...func(*Opt)) (*Out, error), in *In) (out *Out, err error) {
	return attempt(ctx, a, do, in, false)
}

func attempt[In, Out, Opt any](ctx context.Context, a *api, do func(context.Context, *In, ...func(*Opt)) (*Out, error), in *In, repeat bool) (out *Out, err error) {
	var lost error
	err = a.limiter.Do(ctx, func(ctx context.Context) error {
		try, cancel := context.WithTimeout(ctx, tryTime)
		defer cancel()
		out, err = do(try, in)
		if err = failure(ctx, err); errors.Is(err, errLost) {
			if lost = err; !repeat {
				err = &instancegroup.Error{Kind: instancegroup.ErrUncertain, Message: err.Error(), Err: errLost}
			}
		}
		return err
	})
	var e *instancegroup.Error
	if errors.Is(err, errThrottled) && errors.As(err, &e) {
		e.After = throttledAfter
	}
	if err != nil && lost != nil && !errors.Is(err, errLost) {
		err = fmt.Errorf("%w (before that, %w)", err, errLost)
	}
	return out, err
}

// pages calls with each page of what a call returns. turn puts the token of the page into the input, and takes that of the next one from the output.
func pages[In, Out, Opt any](ctx context.Context, a *api, do func(context.Context, *In, ...func(*Opt)) (*Out, error), in *In, turn func(*In, *string), next func(*Out) *string, each func(*Out)) error {
	for range maxPages {
		out, err := call(ctx, a, do, in)
		if err != nil {
			return err
		}
		each(out)
		token := next(out)
		if aws.ToString(token) == "" {
			return nil
		}
		turn(in, token)
	}
	return fmt.Errorf("AWS answers with more than %d pages", maxPages)
}

// maxPages bounds how much is believed of a list that does not end.
const maxPages = 1000

// atOnce bounds how many calls are made at the same time for one.
const atOnce = 8

// each does something with each of several, and goes on after an error. It returns those for which it worked, in their order.
func each(all []string, do func(string) error) (done []string, err error) {
	errs := make([]error, len(all))
	room := make(chan struct{}, atOnce)
	var wait sync.WaitGroup
	for i, one := range all {
		room <- struct{}{}
		wait.Go(func() {
			defer func() { <-room }()
			if err := do(one); err != nil {
				errs[i] = fmt.Errorf("%s: %w", one, err)
			}
		})
	}
	wait.Wait()
	for i, one := range all {
		if errs[i] == nil {
			done = append(done, one)
		}
	}
	return done, errors.Join(errs...)
}
