// The grammar of English sentences that cky draws its sentences from.
//
// A rule's right-hand sides have blanks between symbols and | between alternatives, each of which
// has the weight. What begins with a capital letter is a symbol, all else a word. A line of words
// is a rule for each of them, and each has an equal share of the weight 1.
//
// Suffixes of names: sg and pl are number, inf, ing and en are forms of verbs, gap is a phrase
// whose object stands elsewhere. Verbs are Vi intransitive, Vt transitive, Vd with two objects, Vs
// with a clause, Vc with an infinitive. Adjectives, adverbs and phrases attach wherever English
// lets them, so that long sentences have many parses. Weights prefer short phrases, lists and
// prepositional phrases, which make the sentences ambiguous.
#ifndef GLEANER_BENCH_CKY_ENGLISH_H_
#define GLEANER_BENCH_CKY_ENGLISH_H_

namespace cky {

struct RuleRow {
  double weight;
  const char* parent;
  const char* alternatives;
};

// The first parent starts sentences.
inline constexpr RuleRow kEnglishRules[] = {
    {1, "S", "Clause | Question"},
    {0.1, "S", "VPinf"},  // Imperative.
    // Clauses.
    {1, "Clause", "NPsg VPsg | NPpl VPpl"},
    {0.3, "Clause", "SentenceAdverb Clause | PP Clause | Clause PP"},
    {0.1, "Clause", "Clause Adverb"},
    {0.2, "Clause", "SubordinateClause Clause | Clause SubordinateClause"},
    {0.2, "Clause", "Clause Conjunction Clause"},
    {0.1, "Clause", "Clause Clause"},  // Without a conjunction, since there are no commas.
    {0.1, "Clause", "either Clause or Clause | there BeSg NPsg | there BePl NPpl"},
    {0.1, "Clause", "it BeSg Adjective ThatClause"},
    {0.5, "Clause", "NP ClauseGap"},  // The dog my brother saw.
    {1, "SubordinateClause", "Subordinator Clause"},
    {0.2, "SubordinateClause", "Subordinator VPing"},
    {1, "ThatClause", "that Clause"},
    // Questions.
    {1, "Question", "BeSg NPsg Predicate | BePl NPpl Predicate"},
    {1, "Question", "DoSg NPsg VPinf | DoPl NPpl VPinf | Modal NP VPinf"},
    {1, "Question", "HaveSg NPsg VPen | HavePl NPpl VPen | WhSubject VPsg"},
    {1, "Question",
     "WhObject DoSg NPsg VPinfgap | WhObject DoPl NPpl VPinfgap | WhObject Modal NP VPinfgap"},
    {0.5, "Question", "WhAdverb Question"},
    {0.1, "Question", "Question Conjunction Question"},
    // Noun phrases.
    {1, "NP", "NPsg | NPpl"},
    {1, "NPsg", "DetSg NbarSg"},
    {0.5, "NPsg", "ProperName | PronounSg"},
    {0.1, "NPsg", "MassNoun | AdjectivePhrase MassNoun"},
    {2, "NPsg", "NPsg PP"},
    {0.15, "NPsg", "NPsg RelativeSg"},
    {0.1, "NPsg", "NPsg or NPsg"},
    {0.5, "NPsg", "NPsg NPsg"},  // Apposition: my brother the teacher.
    {0.05, "NPsg", "VPing"},
    {0.03, "NPsg", "ThatClause"},
    {0.02, "NPsg", "the fact ThatClause"},
    {1, "NPpl", "DetPl NbarPl"},
    {2, "NPpl", "NbarPl"},
    {0.3, "NPpl", "PronounPl"},
    {0.2, "NPpl", "Numeral NbarPl"},
    {0.1, "NPpl", "DetPl Numeral NbarPl"},
    {2, "NPpl", "NPpl PP"},
    {0.5, "NPpl", "NPpl RelativePl"},
    {2, "NPpl", "NP and NP"},
    {0.1, "NPpl", "NPpl Conjunction NPpl"},
    {0.5, "NPpl", "NP NP"},  // Lists: dogs cats and horses.
    {0.05, "NPpl", "both NP and NP | Quantifier of NPpl"},
    {0.1, "NPsg", "one of NPpl"},
    {1, "NbarSg", "NounSg"},
    {0.4, "NbarSg", "Adjective NbarSg"},
    {0.1, "NbarSg", "AdjectivePhrase NbarSg"},
    {2, "NbarSg", "NbarSg PP"},
    {0.2, "NbarSg", "NounSg of NP"},
    {0.05, "NbarSg", "NounSg to VPinf"},
    {0.02, "NbarSg", "NbarSg Conjunction NbarSg"},
    {1, "NbarPl", "NounPl"},
    {0.4, "NbarPl", "Adjective NbarPl"},
    {0.1, "NbarPl", "AdjectivePhrase NbarPl"},
    {0.1, "NbarPl", "NounSg NounPl"},  // Compounds: market price reports.
    {2, "NbarPl", "NbarPl PP"},
    {0.2, "NbarPl", "NounPl of NP"},
    {0.02, "NbarPl", "NbarPl Conjunction NbarPl"},
    {0.15, "NounSg", "NounSg NounSg"},
    {1, "DetSg", "Article"},
    {1, "DetPl", "ArticlePl"},
    {0.2, "DetSg", "Possessive"},
    {0.2, "DetPl", "Possessive"},
    {0.1, "Possessive", "NPsg 's"},
    // Relative clauses, with and without a pronoun, and participles after the noun.
    {1, "RelativeSg", "RelativePronoun VPsg"},
    {1, "RelativePl", "RelativePronoun VPpl"},
    {1, "RelativeSg", "Relative"},
    {1, "RelativePl", "Relative"},
    {1, "Relative", "RelativePronoun ClauseGap"},
    {0.5, "Relative", "ClauseGap | VPing | VPpassive"},
    {0.3, "Relative", "Preposition which Clause"},
    {0.1, "Relative", "whose NbarSg VPsg | whose NbarPl VPpl | to VPinfgap"},
    {1, "ClauseGap", "NPsg VPsggap | NPpl VPplgap"},
    {0.3, "ClauseGap", "ClauseGap PP"},
    {0.1, "ClauseGap", "ClauseGap Conjunction ClauseGap"},
    {1, "VPsggap", "VtSg"},
    {0.1, "VPsggap", "VPsggap PP | VPsggap Adverb | Adverb VPsggap"},
    {0.1, "VPsggap", "VsSg ClauseGap | VcSg to VPinfgap | Modal VPinfgap | VdSg NP"},
    {0.03, "VPsggap", "VPsggap Conjunction VPsggap"},
    {1, "VPplgap", "VtPl"},
    {0.1, "VPplgap", "VPplgap PP | VPplgap Adverb | Adverb VPplgap"},
    {0.1, "VPplgap", "VsPl ClauseGap | VcPl to VPinfgap | Modal VPinfgap | VdPl NP"},
    {0.03, "VPplgap", "VPplgap Conjunction VPplgap"},
    {1, "VPinfgap", "VtInf"},
    {0.1, "VPinfgap", "VPinfgap PP | VPinfgap Adverb"},
    {0.1, "VPinfgap", "VsInf ClauseGap | VcInf to VPinfgap | VdInf NP"},
    // Verb phrases: third person singular, and what they share with the past.
    {1, "VPsg", "ViSg | VtSg NP"},
    {0.3, "VPsg", "VdSg NP NP | VsSg ThatClause | VcSg to VPinf"},
    {0.1, "VPsg", "VsSg Clause | VtSg NP and VtSg NP"},
    {0.3, "VPsg", "BeSg Predicate | HaveSg VPen | Modal VPinf"},
    {0.1, "VPsg", "BeSg not Predicate | HaveSg not VPen | Modal not VPinf | DoSg not VPinf"},
    {1.5, "VPsg", "VPsg PP"},
    {0.1, "VPsg", "VPsg VPing | VPsg NPtime"},
    {0.15, "VPsg", "VPsg Adverb | Adverb VPsg"},
    {0.1, "VPsg", "VPsg SubordinateClause | VPsg Conjunction VPsg"},
    {0.05, "VPsg", "VtSg NP Particle"},
    {1, "VPpl", "ViPl | VtPl NP"},
    {0.3, "VPpl", "VdPl NP NP | VsPl ThatClause | VcPl to VPinf"},
    {0.1, "VPpl", "VsPl Clause | VtPl NP and VtPl NP"},
    {0.3, "VPpl", "BePl Predicate | HavePl VPen | Modal VPinf"},
    {0.1, "VPpl", "BePl not Predicate | HavePl not VPen | Modal not VPinf | DoPl not VPinf"},
    {1.5, "VPpl", "VPpl PP"},
    {0.1, "VPpl", "VPpl VPing | VPpl NPtime"},
    {0.15, "VPpl", "VPpl Adverb | Adverb VPpl"},
    {0.1, "VPpl", "VPpl SubordinateClause | VPpl Conjunction VPpl"},
    {0.05, "VPpl", "VtPl NP Particle"},
    {1, "VPinf", "ViInf | VtInf NP"},
    {0.3, "VPinf", "VdInf NP NP | VsInf ThatClause | VcInf to VPinf"},
    {0.2, "VPinf", "be Predicate | have VPen"},
    {1.5, "VPinf", "VPinf PP"},
    {0.1, "VPinf", "VPinf VPing | VPinf NPtime"},
    {0.15, "VPinf", "VPinf Adverb | Adverb VPinf"},
    {0.1, "VPinf", "VPinf SubordinateClause | VPinf Conjunction VPinf"},
    {0.05, "VPinf", "VtInf NP Particle"},
    {1, "VPing", "ViIng | VtIng NP"},
    {0.3, "VPing", "VdIng NP NP | VsIng ThatClause | VcIng to VPinf"},
    {0.1, "VPing", "being Predicate | having VPen"},
    {1.5, "VPing", "VPing PP"},
    {0.1, "VPing", "VPing VPing | VPing NPtime"},
    {0.15, "VPing", "VPing Adverb | Adverb VPing"},
    {0.05, "VPing", "VPing Conjunction VPing"},
    {1, "VPen", "ViEn | VtEn NP"},
    {0.3, "VPen", "VdEn NP NP | VsEn ThatClause | VcEn to VPinf"},
    {0.2, "VPen", "been Predicate"},
    {1.5, "VPen", "VPen PP"},
    {0.1, "VPen", "VPen VPing | VPen NPtime"},
    {0.15, "VPen", "VPen Adverb | Adverb VPen"},
    {0.05, "VPen", "VPen Conjunction VPen"},
    {1, "VPpassive", "VtEn"},
    {0.3, "VPpassive", "VtEn by NP | VdEn NP"},
    {1.5, "VPpassive", "VPpassive PP"},
    {0.15, "VPpassive", "VPpassive Adverb | Adverb VPpassive"},
    {1, "Predicate", "AdjectivePhrase | NP | PP | VPing | VPpassive"},
    {0.1, "Predicate", "Adjective to VPinf | Adjective ThatClause"},
    {0.1, "Predicate", "Comparative than NP | as Adjective as NP"},
    {0.3, "Predicate", "Predicate PP"},
    {0.1, "Predicate", "Predicate Conjunction Predicate"},
    // Phrases of adjectives, adverbs and prepositions.
    {1, "AdjectivePhrase", "Adjective"},
    {0.4, "AdjectivePhrase", "Degree Adjective"},
    {0.1, "AdjectivePhrase", "AdjectivePhrase Conjunction AdjectivePhrase | Comparative"},
    {0.1, "AdjectivePhrase", "AdjectivePhrase PP"},
    {1, "PP", "Preposition NP | PP PP | Adverb PP"},
    {0.2, "PP", "PP Conjunction PP"},
    {0.05, "PP", "Preposition VPing | from NP to NP | Preposition PP"},
    {1, "NPtime", "this NounTime | every NounTime | all NounTime"},
    {1, "Adverb", "AdverbWord"},
    {0.2, "Adverb", "Degree AdverbWord"},
    // Forms of verbs. The past has one form for both numbers, the infinitive is also the plural.
    {1, "ViSg", "ViPast"},
    {1, "ViPl", "ViPast | ViInf"},
    {1, "VtSg", "VtPast"},
    {1, "VtPl", "VtPast | VtInf"},
    {1, "VdSg", "VdPast"},
    {1, "VdPl", "VdPast | VdInf"},
    {1, "VsSg", "VsPast"},
    {1, "VsPl", "VsPast | VsInf"},
    {1, "VcSg", "VcPast"},
    {1, "VcPl", "VcPast | VcInf"},
};

// Lines, of a symbol and its words: first closed classes, then open ones.
inline constexpr char kEnglishWords[] = R"(Article a the this that each every some any no another
ArticlePl the these those some many few several all no most
Possessive my your his her its our their
Quantifier some many few most all none several
Numeral two three four five six seven ten twelve twenty hundred
PronounSg he she it someone everyone nobody something everything this that
PronounPl they we you these those
Conjunction and or but
Subordinator because although while when after before since until unless if though whenever
SentenceAdverb today yesterday perhaps sometimes however meanwhile obviously finally fortunately
Preposition in on under over with without near behind beside after before at from to through
Preposition across against for about of around between beyond during inside outside until since by
Particle up down away back off out
RelativePronoun who which that
WhSubject who what
WhObject whom what who
WhAdverb when where why how
Modal can could will would may might must should shall
BeSg is was
BePl are were
DoSg does did
DoPl do did
HaveSg has had
HavePl have had
Degree very rather quite too so extremely almost
ProperName Alice Robert Maria Kenji Amara Lars Tokyo London Paris Cairo Monday Europe
NounSg dog cat horse bird fish child woman man teacher student doctor farmer sailor painter
NounSg house garden street river mountain forest island village city bridge road field station
NounSg book letter story song picture table chair window door clock telescope machine engine
NounSg king queen judge lawyer soldier neighbour friend brother sister mother father uncle
NounSg problem answer question idea plan promise reason result theory program language memory
NounSg apple bread cake dinner walk run talk call smile watch train ship boat light stone rain
NounSg computer library office company market price cost study report test work mark hope
NounPl dogs cats horses birds fish children women men teachers students doctors farmers sailors
NounPl houses gardens streets rivers mountains forests islands villages cities bridges roads
NounPl books letters stories songs pictures tables chairs windows doors clocks telescopes
NounPl machines engines kings queens judges lawyers soldiers neighbours friends brothers sisters
NounPl problems answers questions ideas plans promises reasons results theories programs walks
NounPl runs talks calls smiles watches trains ships boats lights stones computers offices
NounPl companies markets prices costs studies reports tests works marks hopes words sheep
MassNoun water music money time light rain bread work love knowledge snow sand sleep hope
NounTime day night week month year morning evening summer winter time
NounSg day night week month year morning evening summer winter time
NounPl days nights weeks months years mornings evenings summers winters times flies
Adjective old young small large red green blue dark light bright quiet loud happy sad angry
Adjective tall short long wide narrow deep cold warm hot clever famous strange new good bad
Adjective beautiful careful heavy empty full open broken lost hidden wooden early late
Comparative older younger smaller larger darker brighter taller shorter longer better worse
AdverbWord quickly slowly quietly loudly often never always soon again carefully suddenly
AdverbWord happily early late well here there together everywhere yesterday today
ViSg sleeps runs walks talks laughs smiles waits arrives falls works sings swims travels shines
ViInf sleep run walk talk laugh smile wait arrive fall work sing swim travel shine
ViPast slept ran walked talked laughed smiled waited arrived fell worked sang swam travelled
ViIng sleeping running walking talking laughing smiling waiting arriving falling working singing
ViEn slept run walked talked laughed smiled waited arrived fallen worked sung swum travelled
VtSg sees finds loves watches reads writes builds breaks opens closes follows helps calls marks
VtSg studies tests knows likes runs walks sings carries draws holds leaves meets visits
VtInf see find love watch read write build break open close follow help call mark
VtInf study test know like run walk sing carry draw hold leave meet visit
VtPast saw found loved watched read wrote built broke opened closed followed helped called
VtPast marked studied tested knew liked ran walked sang carried drew held left met visited
VtIng seeing finding loving watching reading writing building breaking opening closing following
VtIng helping calling marking studying testing knowing running carrying drawing holding leaving
VtEn seen found loved watched read written built broken opened closed followed helped called
VtEn marked studied tested known liked carried drawn held left met visited
VtSg answers questions plans promises programs lights stones trains ships machines markets prices
VtSg costs reports houses gardens books letters pictures tables chairs bridges mothers fathers
VtSg doctors judges dogs fishes clocks works
VtInf answer question plan promise program light stone train ship machine market price
VtInf cost report house garden book letter picture table chair bridge mother father
VtInf doctor judge dog fish clock work
ViSg answers plans promises reasons lights trains ships boats markets costs reports gardens
ViSg clocks soldiers fishes tests watches studies calls rains dreams
ViInf answer plan promise reason light train ship boat market cost report garden
ViInf clock soldier fish test watch study call rain dream
VdSg gives shows sends tells offers teaches reads writes buys leaves
VdInf give show send tell offer teach read write buy leave
VdPast gave showed sent told offered taught read wrote bought left
VdIng giving showing sending telling offering teaching reading writing buying leaving
VdEn given shown sent told offered taught read written bought left
VsSg says thinks believes knows hopes sees finds forgets dreams
VsInf say think believe know hope see find forget dream
VsPast said thought believed knew hoped saw found forgot dreamt
VsIng saying thinking believing knowing hoping seeing finding forgetting dreaming
VsEn said thought believed known hoped seen found forgotten dreamt
VcSg wants tries hopes begins plans likes forgets promises
VcInf want try hope begin plan like forget promise
VcPast wanted tried hoped began planned liked forgot promised
VcIng wanting trying hoping beginning planning forgetting promising
VcEn wanted tried hoped begun planned liked forgotten promised)";

}  // namespace cky

#endif  // GLEANER_BENCH_CKY_ENGLISH_H_
