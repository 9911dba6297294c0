const fs = require('fs')
console.log('greet gets ready')
fs.appendFileSync(process.env.GITHUB_STATE, 'word=hello\n')
