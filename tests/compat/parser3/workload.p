@main[]
$words[^hash::create[]]
^for[i](0;19999){
	$key[word-^eval(($i * 7919) % 4999)]
	$words.$key(^words.$key.int(0) + 1)
}
words: ^words._count[]
$sum(0)
^for[round](1;20){
	$table[^table::create{number	square	text
^for[i](1;500){$i	^eval($i * $i)	text-$i-$round
}}]
	^table.sort($table.square)[desc]
	^table.menu{^sum.inc($table.number)}
	$joined[^table.menu{$table.text}[,]]
	$parts[^joined.split[,]]
	^sum.inc(^parts.count[])
}
sum: $sum
$text[]
^for[i](1;3000){
	$text[$text^i.format[%05d]]
}
text: ^text.length[] ^math:md5[$text]
replaced: $t[^text.match[0+(\d)][g]{<$match.1>}]^t.length[]
$node[^node::make(14)]
nodes: ^node.count(0)
$json[^json:parse[{"a":[1,2,{"b":"c"}],"d":null,"e":12.5}]]
json: ^json:string[$json]
$error[^try{^throw[test;source;comment]}{$exception.handled(true)$exception.type}]
error: $error

@CLASS
node

@make[depth]
^if($depth > 0){
	$left[^node::make($depth - 1)]
	$right[^node::make($depth - 1)]
}

@count[unused]
^if(def $left){$result(1 + ^left.count(0) + ^right.count(0))}{$result(1)}
