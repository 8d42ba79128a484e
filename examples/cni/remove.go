// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/wayleave/wayleave/examples/internal/api"
	"github.com/wayleave/wayleave/policy"
)

// del removes all of a container. That there is none is no error.
func del(args *skel.CmdArgs) error {
	c, k, err := read(args)
	if err != nil {
		return err
	}
	return c.undo(args, k)
}

// also returns an error with what went wrong in undoing, if anything did. Alone it keeps its code.
func also(err *types.Error, undoing error) error {
	if undoing != nil {
		err.Details += "; and then: " + undoing.Error()
	}
	return err
}

// patience is how long the agent may take: a little less than the time there is, so that it can say
// what it waits for.
func (c *config) patience() time.Duration { return c.timeout * 9 / 10 }

// undo removes all that add makes: first what was registered, so that the agent forgets the
// container while its interface is still known and drops what is not the container's; then the
// link; last the address, which may be another's at once.
//
// Where the pod has been added anew, in another sandbox, the registration and the link are that
// one's: it has another MAC address.
func (c *config) undo(args *skel.CmdArgs, k container) error {
	anew, err := c.unregister(k, mac(args).String())
	if err != nil {
		return types.NewError(types.ErrTryAgainLater, "the container may still be in the kernel", err.Error())
	}
	if anew {
		return c.release(args)
	}
	return c.disconnect(args, k)
}

// disconnect removes the container's link and gives the addresses back.
func (c *config) disconnect(args *skel.CmdArgs, k container) error {
	if err := disconnect(c.hostInterface(k), mac(args)); err != nil {
		return types.NewError(types.ErrIOFailure, "cannot remove the container's link", err.Error())
	}
	return c.release(args)
}

// unregister has the agent forget an endpoint, and returns once it is out of the kernel. It reports
// whether there is another of that name, which stays.
//
// If no agent runs, unregister removes the file of the endpoint. The next agent then does not know
// the endpoint, and removes it from the kernel before it programs anything new. unregister holds
// the lock of the agent's socket meanwhile, so that no agent starts.
func (c *config) unregister(k container, mac string) (anew bool, err error) {
	anew, err = c.ask(k, mac)
	if !errors.Is(err, api.ErrNoAgent) {
		return anew, c.explain(err)
	}
	lock, err := api.Lock(c.Socket)
	if errors.Is(err, api.ErrRunning) {
		return false, fmt.Errorf(
			"%w, but does not listen: it is starting; if not, its socket was removed and it needs a restart", err,
		)
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = lock.Close() }() // the system does it otherwise
	return c.removeFile(k, mac)
}

// explain returns an error of a request in the words of the network configuration: the plugin has
// no flags, and its user never sees the request.
func (c *config) explain(err error) error {
	switch {
	case errors.Is(err, api.ErrNoAgent):
		return fmt.Errorf("no agent is running there: start one with 'agent run', or set socket in the network "+
			"configuration, which is %s", c.Socket)
	case errors.Is(err, api.ErrNoAnswer), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the agent at %s does not answer within %s: it is stopped (SIGSTOP, a frozen cgroup) "+
			"or busy: let it run or restart it, and the runtime tries again; timeout in the network configuration "+
			"waits longer",
			c.Socket, c.Timeout)
	}
	return err
}

func (c *config) ask(k container, mac string) (anew bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	q := k.parameters(url.Values{"mac": {mac}, "timeout": {c.patience().String()}})
	where := registration(k.Key) + "&" + q.Encode()
	r, err := api.Send[api.Registered](ctx, api.NewClient(c.Socket), http.MethodDelete, where, nil)
	return r.Endpoint != nil, err
}

// removeFile removes the file of a registered endpoint, unless it is another's. That there is none
// is no error.
func (c *config) removeFile(k container, mac string) (anew bool, err error) {
	path := filepath.Join(c.EndpointDir, api.RegistrationFile(k.Key))
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	resource, _ := policy.Decode(data) // what makes no sense is nobody's
	if e, ok := resource.(*policy.WorkloadEndpoint); ok && e.MAC != mac {
		return true, nil
	}
	if err := os.Remove(path); err != nil {
		return false, err
	}
	dir, err := os.Open(c.EndpointDir)
	if err != nil {
		return false, err
	}
	return false, errors.Join(dir.Sync(), dir.Close())
}

// release gives addresses back.
func (c *config) release(args *skel.CmdArgs) error {
	if c.IPAM.Type == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.timeout)
	defer cancel()
	return invoke.DelegateDel(ctx, c.IPAM.Type, args.StdinData, nil)
}

// registration is where the agent tells of a registered endpoint.
func registration(k policy.Key) string {
	return "/v1/registry?" + url.Values{"namespace": {k.Namespace}, "name": {k.Name}}.Encode()
}
