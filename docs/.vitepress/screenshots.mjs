// SPDX-License-Identifier: Apache-2.0
//
// screenshots.mjs ADDRESS FOLDER PAGE... takes pictures of each page of the site. A phone and a desktop show the whole
// page, and a dark desktop its beginning. The script also prints overflowing elements of the desktop: code, tables and
// pictures. scripts/docs runs it.

import { spawn } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

const devices = [
  { name: '390', width: 390, mobile: true },
  { name: '1280', width: 1280 },
  { name: '1280-dark', width: 1280, height: 1600, dark: true },
]

// maxHeight is the height of the largest picture that chromium makes.
const maxHeight = 16384

// wide returns the beginnings of overflowing elements.
const wide = `[...document.querySelectorAll('.vp-doc :is(pre, table, p)')]
  .filter(e => e.scrollWidth > e.clientWidth + 1)
  .map(e => e.textContent.trim().slice(0, 60).replaceAll('\\n', ' '))`

// settled is fulfilled when the page has its fonts and pictures, and Vue has taken it over.
const settled = `Promise.all([document.fonts.ready, ...[...document.images].map(i => i.decode())])
  .then(() => new Promise(done => setTimeout(done, 500)))`

// Browser sends commands of the DevTools protocol to chromium through a pipe.
class Browser {
  #id = 0
  #waiting = new Map()
  #rest = ''

  constructor() {
    const flags = ['--headless', '--no-sandbox', '--disable-gpu', '--hide-scrollbars', '--remote-debugging-pipe']
    this.process = spawn('chromium', flags, { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] })
    this.process.stdio[4].setEncoding('utf8').on('data', text => this.#read(text))
  }

  #read(text) {
    const messages = (this.#rest + text).split('\0')
    this.#rest = messages.pop()
    for (const { id, error, result } of messages.map(m => JSON.parse(m))) {
      const waiting = this.#waiting.get(id)
      this.#waiting.delete(id)
      if (error) waiting?.reject(new Error(error.message))
      else waiting?.resolve(result)
    }
  }

  send(method, params = {}) {
    const id = ++this.#id
    this.process.stdio[3].write(JSON.stringify({ id, method, params, sessionId: this.session }) + '\0')
    return new Promise((resolve, reject) => this.#waiting.set(id, { resolve, reject }))
  }

  // open opens a page of its own.
  async open() {
    const { targetId } = await this.send('Target.createTarget', { url: 'about:blank' })
    this.session = (await this.send('Target.attachToTarget', { targetId, flatten: true })).sessionId
  }

  async evaluate(expression) {
    const { result, exceptionDetails: failure } =
      await this.send('Runtime.evaluate', { expression, awaitPromise: true, returnByValue: true })
    if (failure) throw new Error(failure.exception?.description ?? failure.text)
    return result.value
  }
}

async function load(browser, address, device) {
  const scheme = { name: 'prefers-color-scheme', value: device.dark ? 'dark' : 'light' }
  await browser.send('Emulation.setEmulatedMedia', { features: [scheme] })
  await resize(browser, device, 900)
  await browser.send('Page.navigate', { url: address })
  while (!(await browser.evaluate(`location.href === '${address}' && document.readyState === 'complete'`))) {
    await sleep(50)
  }
  await browser.evaluate(settled)
}

function resize(browser, { width, mobile = false }, height) {
  return browser.send('Emulation.setDeviceMetricsOverride', { width, height, mobile, deviceScaleFactor: 1 })
}

async function capture(browser, device, file) {
  const { cssContentSize } = await browser.send('Page.getLayoutMetrics')
  const height = Math.min(device.height ?? maxHeight, Math.ceil(cssContentSize.height))
  await resize(browser, device, height)
  const clip = { x: 0, y: 0, width: device.width, height, scale: 1 }
  const { data } = await browser.send('Page.captureScreenshot', { format: 'png', clip })
  writeFileSync(file, Buffer.from(data, 'base64'))
  console.log(file)
}

const [site, folder, ...pages] = process.argv.slice(2)
mkdirSync(folder, { recursive: true })
const browser = new Browser()
browser.process.on('exit', code => process.exit(code || 1))
await browser.open()
for (const page of pages) {
  for (const device of devices) {
    await load(browser, `${site}/${page}`, device)
    if (device.name === '1280') {
      for (const text of await browser.evaluate(wide)) console.log(`${page}: wider than its column: ${text}`)
    }
    await capture(browser, device, `${folder}/${page}-${device.name}.png`)
  }
}
browser.process.removeAllListeners('exit').kill()
