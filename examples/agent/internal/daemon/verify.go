// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/wayleave/wayleave/examples/internal/api"
)

// progressEvery is the time between two reports of progress.
const progressEvery = 200 * time.Millisecond

// errVerifying is the error of a second verify.
var errVerifying = errors.New("another verify is running: wait for it")

// verify compares the kernel with the desired table, and the table with policy. It writes progress,
// and in the end the result.
func (d *Daemon) verify(w http.ResponseWriter, r *http.Request) {
	p := d.current()
	if p == nil {
		api.Fail(w, http.StatusServiceUnavailable, d.starting())
		return
	}
	if !d.verifying.TryLock() { // each run needs much memory
		api.Fail(w, http.StatusConflict, errVerifying)
		return
	}
	defer d.verifying.Unlock()
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil {
		api.Fail(w, http.StatusUnprocessableEntity, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	out, flush := json.NewEncoder(w), http.NewResponseController(w)
	var mu sync.Mutex
	send := func(v api.Verification) error {
		mu.Lock()
		defer mu.Unlock()
		return errors.Join(out.Encode(v), flush.Flush())
	}
	if send(api.Verification{}) != nil {
		return // the client has disconnected
	}
	next := time.Now()
	v, err := p.Verify(r.Context(), limit, func(done, all int) error {
		if now := time.Now(); now.After(next) {
			next = now.Add(progressEvery)
			return send(api.Verification{Done: done, All: all})
		}
		return nil
	})
	last := api.Verification{Last: true, Differs: v.Differs(), Text: v.String()}
	if err == nil {
		last.Result, err = json.Marshal(v)
	}
	if err != nil {
		last = api.Verification{Last: true, Error: err.Error()}
	}
	_ = send(last) // if it fails, the client reports that the connection ended
}
