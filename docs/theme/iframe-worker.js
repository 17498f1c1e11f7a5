// A page that was opened as a file may not start a worker, and the search is one: here it runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.inside = frame.contentWindow
      // What is said before the script is there waits for it.
      this.waiting = []
      this.inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      const script = this.inside.document.createElement("script")
      script.src = new URL(url, document.baseURI)
      script.onload = () => {
        for (const data of this.waiting.splice(0)) this.tell(data)
        this.waiting = null
      }
      this.inside.document.body.append(script)
    }
    tell(data) {
      this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data }))
    }
    postMessage(data) {
      if (this.waiting) this.waiting.push(data)
      else this.tell(data)
    }
    terminate() {
      this.inside.frameElement.remove()
    }
  }
}
