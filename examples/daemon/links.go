// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/wayleave/wayleave/dataplane"
	"github.com/wayleave/wayleave/kubernetes/convert"
	"github.com/wayleave/wayleave/kubernetes/pods"
)

// link is the plugin's report of a pod: the body of a request, and the content of a file.
type link struct {
	Namespace string       `json:"namespace"`
	Name      string       `json:"name"`
	UID       types.UID    `json:"uid"`
	Interface string       `json:"interface"`
	Addresses []netip.Addr `json:"addresses"`
}

var errInvalid = errors.New("invalid request")

func (l link) ref() pods.Ref { return pods.Ref{Namespace: l.Namespace, Name: l.Name, UID: l.UID} }

// validate reports whether the names can be those of an object of the API, and so of a file.
func (l link) validate() error {
	for _, field := range []struct{ name, value string }{
		{"namespace", l.Namespace}, {"name", l.Name}, {"uid", string(l.UID)},
	} {
		if field.value == "" || strings.ContainsAny(field.value, "/_") {
			return fmt.Errorf("%w: %s %q", errInvalid, field.name, field.value)
		}
	}
	return nil
}

// file returns the path of the file of a pod. Names of the API have no underscore.
func (d *daemon) file(l link) string {
	return filepath.Join(d.cfg.folder, "links", l.Namespace+"_"+l.Name)
}

func (d *daemon) attach(l link) error {
	return d.source.Attach(l.ref(), convert.Attachment{Interface: l.Interface, Addresses: l.Addresses})
}

// attachAll attaches the pods that an earlier daemon has attached.
func (d *daemon) attachAll() error {
	files, err := filepath.Glob(d.file(link{Namespace: "*", Name: "*"}))
	if err != nil {
		return err
	}
	for _, file := range files {
		l, err := readLink(file)
		if err == nil {
			err = d.attach(l)
		}
		if err != nil { // the pod is not an endpoint: its packets are dropped
			d.cfg.logger.Error("not attached", "file", file, "err", err)
		}
	}
	return nil
}

func readLink(file string) (l link, err error) {
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &l)
	}
	return l, err
}

// add is for CNI ADD, once the link exists. It returns when the policy of the pod is enforced.
func (d *daemon) add(ctx context.Context, l link) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err
	}
	if err := d.attach(l); err != nil {
		return fmt.Errorf("%w: pod %s: %w", errInvalid, l.ref(), err)
	}
	half := filepath.Join(d.cfg.folder, "half-"+string(l.UID))
	if err := errors.Join(os.WriteFile(half, text, 0o600), os.Rename(half, d.file(l))); err != nil {
		return err
	}
	// Otherwise the driver may only have an earlier pod of that name.
	if err := d.source.Barrier(ctx); err != nil {
		return err
	}
	ours := func(e *dataplane.Endpoint) bool { return e.Interface == l.Interface }
	err = d.driver.WaitEndpoint(ctx, l.ref().Key(), ours)
	if err != nil { // the API server does not have the pod, or there is a fault
		return fmt.Errorf("pod %s: its policy is not applied: %w", l.ref(), err)
	}
	return nil
}

// del is for CNI DEL. It returns when the kernel has no object of the pod.
func (d *daemon) del(ctx context.Context, l link) error {
	if !d.source.Detach(l.ref()) {
		return nil // a new pod with that name has replaced this one
	}
	err := d.source.Barrier(ctx) // the driver may not have been sent the pod yet
	if err == nil {
		err = d.driver.WaitRemoved(ctx, l.ref().Key())
	}
	if err != nil {
		return fmt.Errorf("pod %s: it may still be in the kernel: %w", l.ref(), err)
	}
	if err := os.Remove(d.file(l)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// serve answers the plugin's requests until the context is done.
func (d *daemon) serve(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(d.cfg.folder, "links"), 0o700); err != nil {
		return err
	}
	socket := filepath.Join(d.cfg.folder, "socket")
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /add", func(w http.ResponseWriter, r *http.Request) { answer(w, r, d.add) })
	mux.HandleFunc("POST /del", func(w http.ResponseWriter, r *http.Request) { answer(w, r, d.del) })
	server := &http.Server{Handler: mux, BaseContext: func(net.Listener) context.Context { return ctx }}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	return server.Serve(listener)
}

// answer reads a link from a request, and writes the error, if any.
func answer(w http.ResponseWriter, r *http.Request, do func(context.Context, link) error) {
	var l link
	err := json.NewDecoder(r.Body).Decode(&l)
	if err != nil {
		err = fmt.Errorf("%w: %w", errInvalid, err)
	} else if err = l.validate(); err == nil {
		err = do(r.Context(), l)
	}
	switch {
	case errors.Is(err, errInvalid):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case err != nil:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
